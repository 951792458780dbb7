// A first look at the baseline's answers: three of them, and what is probably wrong with how they are measured.

import { h, replace } from "../dom.js";
import { score } from "../format.js";
import { block } from "./text_block.js";

export function mount(element, { run, subscribe }) {
  let shown = null;
  function draw() {
    const look = run.detail.first_look;
    const state = JSON.stringify(look);
    if (state === shown) return;
    shown = state;
    element.hidden = !look;
    if (!look) return;
    replace(element,
      h("h2", {}, "First look at the baseline's answers"),
      look.warnings.map((warning) => h("p", { class: "notice", "data-kind": "warn" }, warning)),
      look.shown.length ? h("details", { open: !run.isOver && look.warnings.length > 0 },
        h("summary", {}, `${look.shown.length} of its answers`), look.shown.map(answerOf)) : null,
    );
  }
  draw();
  return subscribe((changed) => changed.has("detail") && draw());
}

function answerOf({ sample, input, expected, answer, passed, scores, why }) {
  return h("article", { class: "answer" },
    h("p", { class: "answer-head" }, h("span", { class: "pill", "data-kind": passed ? "good" : "bad" }, passed ? "passed" : "did not pass"), " ",
      h("span", { class: "soft" }, [sample, ...Object.entries(scores).map(([name, value]) => `${name} ${score(value)}`)].join(" · "))),
    block("Input", input),
    expected === null ? null : block("Expected", expected),
    answer === null ? null : block("Answer", answer),
    why ? h("p", { class: "soft" }, why) : null,
  );
}
