// Two runs of a report beside each other: `#/comparisons/ONE/OTHER`.

import { pairView } from "../detail/compare.js";
import { h, replace } from "../dom.js";
import { linkTo } from "../router.js";

export function mount(element, { api, navigate, announce, rest, options: given }) {
  let place = rest, options = given, pair = null;

  function draw() {
    if (pair && pair.of === place.join("\n")) return pair.go(options);
    pair?.close();
    const body = h("div", { class: "report-pair" });
    replace(element, h("nav", { class: "crumbs small", "aria-label": "Where you are" }, h("a", { href: linkTo(["runs"]) }, "Runs"), h("span", { "aria-hidden": "true" }, " / "), h("span", { class: "soft" }, "compared")),
      h("div", { class: "title" }, h("h1", { tabindex: "-1" }, `${place[1]}, compared with ${place[0]}`)), h("h2", { class: "unseen" }, "Both runs"), body);
    const go = (changes) => navigate(["comparisons", ...place], { ...Object.fromEntries(options), ...changes }, { replace: true });
    pair = { of: place.join("\n"), ...pairView(body, { api, names: place, options, go, announce }) };
    return undefined;
  }

  draw();
  return {
    go: (rest, now) => ((place = rest), (options = now), draw()),
    unmount: () => pair?.close(),
  };
}
