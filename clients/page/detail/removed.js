// What a policy has removed of the run, and what keeps the rest.

import { h, replace } from "../dom.js";

export function mount(element, { run, subscribe }) {
  let shown = null;
  function draw() {
    const { removed = "", held = "" } = run.detail;
    const state = `${removed}\n${held}`;
    if (state === shown) return;
    shown = state;
    element.hidden = !removed && !held;
    replace(element,
      removed ? h("p", { class: "notice" }, removed) : null,
      held ? h("p", { class: "notice" }, `Held: ${held}. Nothing of this run is removed.`) : null,
    );
  }
  draw();
  return subscribe((changed) => changed.has("detail") && draw());
}
