// The live log of decisions, in words, the newest first.

import { h, replace, say } from "../dom.js";
import { clock, day } from "../format.js";
import { linkTo } from "../router.js";
import { isLive } from "../source.js";
import { linesOf, partsWords } from "./log_words.js";
import { glyph } from "./marks.js";

const PAGE = 100;
const MOST_SHOWN = 1000;

/** The log as a card; with `short`, its newest lines and a link to all of it. */
export function mount(element, { run, api, subscribe }, { short = 0 } = {}) {
  const list = h("ol", { class: "log" });
  const live = h("div", { role: "log", "aria-label": "Decisions, the newest first", "aria-live": "polite", "aria-relevant": "additions" }, list);
  const withTrials = h("input", { id: "log-trials", type: "checkbox", onchange: () => begin() });
  const undecided = h("p", { class: "soft small" });
  const more = h("button", { type: "button", onclick: () => older() }, "Show older");
  const problem = h("p", { class: "problem", role: "alert" });
  replace(element,
    h("div", { class: "card-head" }, h("h2", {}, "Decisions"),
      h("div", { class: "tools" }, short ? h("a", { href: linkTo(["runs", run.id, "log"]) }, "All of them") : isLive && h("label", { class: "check" }, withTrials, "beginnings and ends of trials"))),
    undecided, live, problem, short ? null : h("div", { class: "buttons" }, more),
  );
  let oldest = null, newest = null; // ids of the events that are shown
  let generation = 0, reading = 0;

  async function begin() {
    generation++;
    oldest = newest = null;
    replace(list);
    await older();
  }

  function older() {
    return readPage(oldest, (page) => {
      list.append(...page.items.flatMap(entries));
      newest ??= page.items[0]?.id ?? 0;
      oldest = page.items.at(-1)?.id ?? oldest;
      more.hidden = !page.has_more;
      arrive();
    });
  }

  /** A round that only measures some samples may go on for long before it decides anything. */
  function tellUndecided() {
    const parts = partsWords(run, run.detail.round + 1);
    say(undecided, parts ? `${parts}; nothing decided${run.isOver ? "" : " yet"}.` : "");
    undecided.hidden = !parts;
  }

  /** What happened while there was no stream. */
  function catchUp() {
    return readPage(null, (page) => {
      if (page.has_more && page.items.at(-1).id > newest) return void begin();
      waiting.push(...page.items.toReversed());
      return arrive();
    });
  }

  async function readPage(before, take) {
    const mine = generation;
    reading++;
    try {
      const page = await api.get(api.ofRun(run.id, "log"), { query: { before, trials: withTrials.checked || null, limit: short || PAGE } });
      if (mine !== generation) return;
      take(page);
      replace(problem);
    } catch (error) {
      replace(problem, error.message);
    } finally {
      reading--;
    }
  }

  function entries(event) {
    const rejectionsOf = (round) => run.rejections.filter((one) => one.round === round).slice(0, 20);
    const lines = linesOf(event, { rejectionsOf, partsOf: (round) => partsWords(run, round), short: short > 0 });
    return (short ? lines.slice(0, 6) : lines).map((line) => h("li", { class: line.strong ? "strong" : null, "data-event": event.id },
      glyph(line.kind === "release" ? "baseline" : line.kind),
      h("time", { datetime: event.at, title: day(event.at) }, clock(event.at)),
      h("span", { class: "words" }, line.text, line.candidate ? h("a", { class: "mono", href: linkTo(["runs", run.id, "candidates", line.candidate]) }, line.candidate) : null, line.after ?? "")));
  }

  /** What the stream told is shown once the round's rejections are known, too. */
  let waiting = [];
  function arrive() {
    if (newest === null) return;
    for (const event of waiting) {
      if (event.id <= newest) continue;
      list.prepend(...entries(event));
      newest = event.id;
    }
    waiting = [];
    const most = short ? short * 2 : MOST_SHOWN;
    while (list.children.length > most) {
      list.lastElementChild.remove();
      oldest = Number(list.lastElementChild.dataset.event);
    }
  }

  begin();
  tellUndecided();
  const unsubscribe = subscribe((changed, event) => {
    if (changed.has("events") && (withTrials.checked || event.type !== "trial_added_or_updated")) {
      waiting.push({ id: event.id, type: event.type, at: event.data.at, facts: event.data });
    }
    if (changed.has("detail")) {
      tellUndecided();
      if (run.connection.kind === "live" && newest !== null) arrive();
      else if (!reading) (newest === null ? older : catchUp)();
    }
  });
  return () => {
    generation++;
    unsubscribe();
  };
}
