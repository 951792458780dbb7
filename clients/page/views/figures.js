// What a report says in words: how it fared at the gates, its figures, and what a compression tried.

import { h, replace } from "../dom.js";
import { report } from "../source.js";

const mark = (isGood) => h("span", { class: isGood ? "good" : "bad" }, isGood ? "✓ " : "✗ ");

export function mount(element, { run }) {
  const { gates, figures, edits } = report.runs[run.id];
  replace(element,
    h("div", { class: "card-head" }, h("h2", {}, "Figures")),
    gates.length ? h("ul", { class: "told-list", "aria-label": "Gates" }, gates.map(({ met, words }) => h("li", {}, mark(met), words))) : null,
    h("dl", { class: "figures" }, figures.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    edits.length ? [h("h3", {}, "Edits, the largest saving first"), h("ul", { class: "told-list", "aria-label": "Edits" }, edits.map(({ kept, text }) => h("li", {}, mark(kept), text)))] : null,
  );
  return () => {};
}
