// The live log of decisions, in words, the newest first.

import { h, replace } from "../dom.js";
import { clock, day } from "../format.js";
import { linkTo } from "../router.js";
import { linesOf } from "./log_words.js";
import { glyph } from "./marks.js";

const PAGE = 100;
const MOST_SHOWN = 1000;

/** The log as a card; with `short`, its newest lines and a link to all of it. */
export function mount(element, { run, api, subscribe }, { short = 0 } = {}) {
  const list = h("ol", { class: "log" });
  const live = h("div", { role: "log", "aria-label": "Decisions, the newest first", "aria-live": "polite", "aria-relevant": "additions" }, list);
  const withTrials = h("input", { id: "log-trials", type: "checkbox", onchange: () => begin() });
  const more = h("button", { type: "button", onclick: () => older() }, "Show older");
  const problem = h("p", { class: "problem", role: "alert" });
  replace(element,
    h("div", { class: "card-head" }, h("h2", {}, "Decisions"),
      h("div", { class: "tools" }, short ? h("a", { href: linkTo(["runs", run.id, "log"]) }, "All of them") : h("label", { class: "check" }, withTrials, "beginnings and ends of trials"))),
    live, problem, short ? null : h("div", { class: "buttons" }, more),
  );
  let oldest = null, newest = 0;
  let generation = 0;

  async function begin() {
    generation++;
    oldest = null;
    newest = 0;
    replace(list);
    await older();
  }

  async function older() {
    const mine = generation;
    try {
      const page = await api.get(api.ofRun(run.id, "log"), { query: { before: oldest, trials: withTrials.checked || null, limit: short || PAGE } });
      if (mine !== generation) return;
      list.append(...page.items.filter((event) => !newest || event.id < (oldest ?? Infinity)).flatMap(entries));
      newest = Math.max(newest, page.items[0]?.id ?? 0);
      oldest = page.items.at(-1)?.id ?? oldest;
      more.hidden = !page.has_more;
      replace(problem);
    } catch (error) {
      replace(problem, error.message);
    }
  }

  function entries(event) {
    const rejectionsOf = (round) => run.rejections.filter((one) => one.round === round).slice(0, 20);
    const lines = linesOf(event, { rejectionsOf, short: short > 0 });
    return (short ? lines.slice(0, 6) : lines).map((line) => h("li", { class: line.strong ? "strong" : null },
      glyph(line.kind === "release" ? "baseline" : line.kind),
      h("time", { datetime: event.at, title: day(event.at) }, clock(event.at)),
      h("span", { class: "words" }, line.text, line.candidate ? h("a", { class: "mono", href: linkTo(["runs", run.id, "candidates", line.candidate]) }, line.candidate) : null, line.after ?? "")));
  }

  /** What the stream told is shown once the round's rejections are known, too. */
  let waiting = [];
  function arrive() {
    const fresh = waiting.filter((event) => event.id > newest);
    waiting = [];
    for (const event of fresh) {
      list.prepend(...entries(event));
      newest = event.id;
    }
    const most = short ? short * 2 : MOST_SHOWN;
    while (list.children.length > most) list.lastElementChild.remove();
  }

  begin();
  const unsubscribe = subscribe((changed, event) => {
    if (changed.has("events") && newest && (withTrials.checked || event.type !== "trial_added_or_updated")) {
      waiting.push({ id: event.id, type: event.type, at: event.data.at, facts: event.data });
    }
    if (changed.has("detail")) {
      if (run.connection.kind === "polling") begin();
      else if (waiting.length) arrive();
    }
  });
  return () => {
    generation++;
    unsubscribe();
  };
}
