// Labels of a run: its questions, and one of them: `#/runs/ID/labels`, `#/runs/ID/labels/7?at=3`.

import { complaint, reading } from "../detail/reading.js";
import { h, replace } from "../dom.js";
import { ago, whole } from "../format.js";
import { empty, tableOf } from "../library/screen.js";
import { linkTo } from "../router.js";
import { mountForm } from "./form.js";
import { DRAWN, KINDS } from "./kinds.js";
import { mountQueue } from "./queue.js";

export function mount(element, context) {
  return context.params.candidate ? mountOne(element, context, context.params.candidate) : mountAll(element, context);
}

function mountAll(element, context) {
  const { run, api } = context;
  const list = h("div", { class: "library-body" });
  const form = h("div", {});
  replace(element, h("div", { class: "label-screen" }, list, form));
  const giveUp = reading(list, (signal) => api.get(api.ofRun(run.id, "questions"), { signal }), ({ items }) => replace(list, items.length
    ? h("div", { class: "card flush" }, tableOf("Questions", ["Question", "Answers", "Labels", "Asked"], items.map((one) => [
      [h("a", { href: linkTo(["runs", run.id, "labels", String(one.question_id)]) }, one.words), h("div", { class: "soft small" }, `${KINDS[one.kind]}, drawn ${DRAWN[one.drawn]}`)],
      h("span", { class: "number" }, whole(one.items)),
      one.people.length ? h("span", { class: "pills" }, one.people.map(({ who, labels }) => h("span", { class: "pill" }, `${who} ${whole(labels)}`))) : h("span", { class: "soft" }, "none yet"),
      h("span", { class: "soft" }, `${one.who}, ${ago(one.at)}`),
    ])))
    : empty("Nobody was asked about answers yet", "Ask a question below: answers are drawn, and people label them one after the other, by keys. No decision of the run reads their labels.")));
  api.get("/session").catch(() => null).then((caller) => caller?.role !== "read" && mountForm(form, context)); // a reader asks nothing
  return { unmount: giveUp };
}

function mountOne(element, context, id) {
  const { run, api } = context;
  let shown = null, closed = false, place = context.options;
  replace(element, h("div", { class: "card skeleton tall" }));
  async function load() {
    try {
      const [question, caller] = await Promise.all([api.get(api.ofRun(run.id, "questions", id)), api.get("/session").catch(() => null)]);
      if (!closed) shown = mountQueue(element, { ...context, options: place }, question, caller);
    } catch (error) {
      if (!closed && error.status !== 401) replace(element, complaint(error, load), h("p", {}, h("a", { href: linkTo(["runs", run.id, "labels"]) }, "All questions")));
    }
  }
  load();
  return {
    go: (options) => ((place = options), shown?.go(options)),
    unmount() {
      closed = true;
      shown?.unmount();
    },
  };
}
