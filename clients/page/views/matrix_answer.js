// One answer of the matrix, opened: the sample, what the first column answered, and what this candidate did.

import { answersOf } from "../detail/answers.js";
import { reading } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";

/**
 * `ask({position, item}, candidates, signal)` reads answers to a sample by its id, or by its place where `item` is null;
 * `name(candidate)` and `link(candidate)` are words and address; `step(down, right)` goes to another cell, `onclose()` hears that it was closed; `marksOf(candidate, item, replicate)` is what people said of an answer,
 * `sent(candidate, item, replicate, signal)` asks for the messages behind it.
 */
export function answerDialog({ ask, name, link, step, onclose, marksOf, sent }) {
  const heading = h("h3", { id: "matrix-answer-title", tabindex: "-1" });
  const body = h("div", { class: "matrix-answer-body" });
  const more = h("a", {}, "The candidate");
  const button = (text, label, down, right) => h("button", { type: "button", "aria-label": label, title: label, onclick: () => step(down, right) }, text);
  const dialog = h("dialog", { class: "matrix-answer", "aria-labelledby": "matrix-answer-title", onkeydown: pressed },
    h("div", { class: "matrix-answer-head" }, heading,
      h("div", { class: "buttons" }, button("↑", "Sample before", -1, 0), button("↓", "Next sample", 1, 0), button("←", "Candidate before", 0, -1), button("→", "Next candidate", 0, 1),
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"))),
    body,
    h("p", { class: "small" }, more));
  let giveUp = () => {};
  dialog.addEventListener("close", () => {
    giveUp();
    dialog.remove();
    onclose();
  });

  function pressed(event) {
    const to = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!to || event.target.closest("pre, input, textarea")) return;
    event.preventDefault();
    step(...to);
  }

  return {
    dialog,
    /** Show a sample with the answers of a candidate, beside those of the reference. */
    show({ position, item }, reference, candidate) {
      giveUp();
      const alone = reference === candidate;
      say(heading, `${item ?? `Sample ${position + 1}`}: ${name(candidate)}`);
      more.setAttribute("href", link(candidate));
      say(more, `${name(candidate)}: what it changes`);
      giveUp = reading(body, (signal) => ask({ position, item }, alone ? [candidate] : [reference, candidate], signal), (found) => {
        const [one, other] = alone ? [null, found.candidates[0]] : found.candidates;
        say(heading, `${found.item_id}: ${name(candidate)}`);
        const parts = answersOf({
          ...found, baseline_answers: one?.answers ?? [], baseline_score: one?.score ?? null, candidate_answers: other.answers, candidate_score: other.score,
        }, { before: name(reference), after: name(candidate) }, (side, answer, itemId) => marksOf(side === "before" ? reference : candidate, itemId, answer.replicate), (side, answer, itemId, given) => sent(side === "before" ? reference : candidate, itemId, answer.replicate, given));
        if (alone) parts.at(-1).firstChild.remove(); // nothing to stand beside
        replace(body, parts);
      });
      if (!dialog.isConnected) {
        document.body.append(dialog);
        dialog.showModal();
        heading.focus();
      }
    },
  };
}
