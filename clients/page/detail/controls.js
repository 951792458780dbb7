// Small pieces that the views of details share.

import { h } from "../dom.js";
import { words } from "../format.js";

const KIND = { better: "good", not_worse: "good", worse: "bad", inconclusive: "warn" };

/** A verdict in a pill, with what it is a verdict of before it. */
export const verdictPill = (verdict, of = "") => h("span", { class: "pill", "data-kind": KIND[verdict] }, of, words(verdict));

/** A choice among few; `change(value)` hears of another one. */
export function choice(name, entries, chosen, change) {
  return h("select", { name, onchange: (event) => change(event.target.value) },
    entries.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

/** A control below its name. */
export const labelled = (text, control) => h("label", { class: "labelled" }, h("span", {}, text), control);

/** How texts are compared where nobody has chosen: side by side where there is room. */
export const roomyLayout = () => (matchMedia("(min-width: 900px)").matches ? "split" : "unified");
