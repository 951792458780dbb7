// The queue of a question: one answer after the other, labelled by keys.

import { readable } from "../detail/answers.js";
import { block } from "../detail/text_block.js";
import { imagesOf } from "../detail/images.js";
import { complaint } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";
import { capital, whole } from "../format.js";
import { linkTo } from "../router.js";
import { agreementView } from "./agreement.js";
import { DRAWN, KINDS } from "./kinds.js";

const PAGE = 20;
const SIDES = ["First", "Second"];

export function mountQueue(element, { run, api, navigate, announce, options: given }, question, caller) {
  const steps = ["runs", run.id, "labels", String(question.question_id)];
  const at = (...rest) => api.ofRun(run.id, "questions", String(question.question_id), ...rest);
  const may = caller?.role !== "read";
  const items = new Map();
  let place = null, options = given, busy = false, closed = false;
  let mine = question.people.find(({ who }) => who === caller?.name)?.labels ?? 0;

  const told = h("p", { class: "told", role: "status" });
  const bar = h("progress", { max: String(question.items), "aria-label": "Answers that you have labelled" });
  const sample = h("div", { class: "label-sample" });
  const problem = h("p", { class: "problem", role: "alert" });
  const buttons = question.categories.map((label, number) => h("button", { type: "button", class: "label-choice", disabled: !may, "aria-pressed": "false", onclick: () => put(label) },
    h("kbd", { "aria-hidden": "true" }, String(number + 1)), question.kind === "scale" ? stepOf(label, number) : capital(label)));
  /** A step of a scale; its ends say what they mean. */
  function stepOf(label, number) {
    const means = { 0: question.ends[0], [question.categories.length - 1]: question.ends[1] }[number];
    return means ? `${label}: ${means}` : label;
  }
  const back = h("button", { type: "button", class: "quiet", onclick: takeBack }, "Take back");
  const card = h("section", { class: "card label-card", tabindex: "-1", "aria-label": "Answer to label" },
    sample, problem,
    h("div", { class: "label-choices", role: "group", "aria-label": question.words }, buttons),
    h("div", { class: "buttons label-steps" },
      h("button", { type: "button", onclick: () => step(-1) }, "← Before"), h("button", { type: "button", onclick: () => step(1) }, "Next →"), may ? back : h("span", { class: "soft" }, "Your token may look, not label: ask an admin for one with the role run.")));
  const agreement = agreementView({ api, at, question, caller, announce, waits: may && mine < question.items, removed: () => navigate(["runs", run.id, "labels"]) });
  replace(element, h("div", { class: "label-screen" },
    h("p", { class: "crumbs small" }, h("a", { href: linkTo(["runs", run.id, "labels"]) }, "All questions"), h("span", { "aria-hidden": "true" }, " / "), h("span", { class: "soft" }, `question ${question.question_id}`)),
    h("div", { class: "label-head" }, h("h2", {}, question.words), told, bar),
    card,
    h("p", { class: "soft small" }, h("kbd", {}, `1`), "–", h("kbd", {}, String(question.categories.length)), " label and go on, ", h("kbd", {}, "←"), " ", h("kbd", {}, "→"), " walk, ", h("kbd", {}, "U"), " takes back. ",
      `${capital(KINDS[question.kind])}; ${whole(question.items)} of ${whole(question.drawn_from)} answers, drawn ${DRAWN[question.drawn]} with seed ${question.seed}.`),
    agreement.element));

  async function item(position) {
    if (!items.has(position)) {
      const first = Math.floor(position / PAGE) * PAGE;
      const page = await api.get(at("items"), { query: { after: first - 1, limit: PAGE } });
      for (const one of page.items) items.set(one.position, one);
    }
    return items.get(position) ?? null;
  }

  /** The next answer that is not labelled, from there on and then from the beginning; null where there is none. */
  async function open(from) {
    if (mine >= question.items) return null;
    for (let far = 0; far < question.items; far += 1) {
      const position = (from + far) % question.items;
      const found = await item(position);
      if (closed || (found && found.label === null)) return position;
    }
    return null;
  }

  const go = (position) => navigate(steps, { at: String(position) }, { replace: true });
  const step = (by) => place !== null && go(Math.min(Math.max(place + by, 0), question.items - 1));

  async function show() {
    const wanted = Number.parseInt(options.get("at") ?? "", 10);
    try {
      const position = Number.isNaN(wanted) ? await open(0) ?? 0 : Math.min(Math.max(wanted, 0), question.items - 1);
      const found = await item(position);
      if (closed || !found) return;
      place = position;
      draw(found);
    } catch (error) {
      if (!closed && error.status !== 401) replace(sample, complaint(error, show));
    }
  }

  function draw(found) {
    say(told, mine >= question.items ? `You have labelled all ${whole(question.items)}` : `Answer ${whole(place + 1)} of ${whole(question.items)}; you have labelled ${whole(mine)}`);
    bar.value = mine;
    const several = found.answers.length > 1;
    replace(sample,
      h("p", { class: "small soft" }, found.item_id, " ", found.tags.map((tag) => h("span", { class: "pill" }, tag))),
      h("div", { class: "asked" }, block("Input", readable(found.input)), imagesOf(found.input, "Input"), found.expected === null ? null : block("Expected", readable(found.expected))),
      h("div", { class: "sides" }, found.answers.map((answer, side) => h("section", { class: "side" }, h("h3", {}, several ? SIDES[side] : "Answer"),
        answer.is_removed ? h("p", { class: "soft" }, "Its text was removed by a policy.") : block("Output", readable(answer.output))))));
    question.categories.forEach((label, number) => buttons[number].setAttribute("aria-pressed", String(found.label === label)));
    back.disabled = found.label === null;
  }

  async function change(act, after) {
    if (busy || place === null || !may) return;
    busy = true;
    replace(problem);
    try {
      await act();
      if (!closed) await after();
    } catch (error) {
      if (!closed) replace(problem, `This was not kept: ${error.message}`);
    } finally {
      busy = false;
    }
  }

  const put = (label) => change(() => api.put(at("items", String(place), "label"), { label }), async () => {
    const found = items.get(place);
    if (found.label === null) mine += 1;
    found.label = label;
    const next = await open(place + 1);
    if (next === null || next === place) {
      draw(found);
      agreement.show();
    } else go(next);
    announce(next === null ? `${label}. You have labelled all.` : `${label}. Answer ${next + 1} of ${question.items}.`);
  });

  function takeBack() {
    const found = items.get(place);
    if (!found || found.label === null) return undefined;
    return change(() => api.remove(at("items", String(place), "label")), () => {
      found.label = null;
      mine -= 1;
      draw(found);
      card.focus({ preventScroll: true });
    });
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog, summary, pre")) return;
    const label = question.categories[Number(event.key) - 1];
    const act = label !== undefined ? () => put(label) : { ArrowLeft: () => step(-1), ArrowRight: () => step(1), u: takeBack, U: takeBack }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  document.addEventListener("keydown", pressed);
  show();
  return {
    go: (next) => ((options = next), show()),
    unmount() {
      closed = true;
      document.removeEventListener("keydown", pressed);
      agreement.close();
    },
  };
}
