// A screen with a list, and one thing of it: `#/prompts`, `#/prompts/NAME?tab=versions`.

import { h } from "../dom.js";
import { linkTo, placeOf } from "../router.js";

/** Mount `list`, or `one` with the name in the address, and change between them as the address does. */
export function mountLibrary(element, context, { list, one }) {
  let shown = null;
  function show() {
    const { steps, options } = placeOf(location.hash);
    const id = steps[1] ?? null;
    if (shown?.id === id) return shown.go?.(options);
    shown?.unmount();
    const view = id === null ? list : one;
    shown = { id, ...view(element, { ...context, id, options }) };
    return undefined;
  }
  show();
  return { go: show, unmount: () => shown?.unmount() };
}

/** Where one is, above the title. */
export const crumbs = (place, title, id) => h("nav", { class: "crumbs small", "aria-label": "Where you are" },
  h("a", { href: linkTo([place]) }, title), h("span", { "aria-hidden": "true" }, " / "), h("span", { class: "mono soft" }, id));

/** Tabs as links: `names` by what stands in the address. */
export const tabLinks = (label, steps, names, current) => h("nav", { class: "tabs", "aria-label": label },
  Object.entries(names).map(([tab, title]) => h("a", { href: linkTo(steps, tab === Object.keys(names)[0] ? {} : { tab }), "aria-current": tab === current ? "page" : null }, title)));

/** A table in its own scrolling place: `columns` are titles, `rows` lists of cells. */
export const tableOf = (label, columns, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
  h("table", { class: "plain library-table", "aria-label": label }, h("thead", {}, h("tr", {}, columns.map((title) => (title ? h("th", { scope: "col" }, title) : h("td", {}))))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));

export const empty = (title, ...more) => h("div", { class: "card empty" }, h("strong", {}, title), more);
