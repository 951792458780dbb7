// A table of any length of which only the rows in sight exist, with the meaning of a table for those who hear it.

import { h, replace } from "../dom.js";

const ROW = 41; // pixels, as parts.css says, with its line
const BEYOND = 8;
const UNSTATED = 120; // pixels of a column that says no width, where the table is wider than its place
const MOST_PRINTED = 1000; // rows; paper does not scroll
const LEAST = 560; // pixels that columns are chosen for however many are shown always
const classOf = (column) => [column.number && "number", column.pinned && "pinned"].filter(Boolean).join(" ") || null;

/**
 * `columns`: `{key, title, quiet, hint, width, number, sort(row), cell(row), from, until, always, pinned}`; `from` and `until`: the widths at which
 * it is shown, of the room that those leave that are shown `always`. With such columns the table may be wider than the screen, and a `pinned` one stays.
 * Returns `{element, show(rows), columns(next), order(key, descending), close()}`; `onsort(column, descending)` is told of clicks on
 * headings, `onsight(rows)` of the rows that are there to be seen.
 */
export function virtualTable({ label, columns, onsort, onopen, onsight = () => {}, rowAttributes = () => ({}) }) {
  const body = h("tbody");
  const head = h("tr", { "aria-rowindex": "1" });
  const table = h("table", { "aria-label": label }, h("thead", {}, head), body);
  const element = h("div", { class: "virtual", tabindex: "0", role: "region", "aria-label": label, onscroll: () => place(), onclick: clicked }, table);
  const paper = matchMedia("print");
  let rows = [];
  let shownColumns = columns;
  let range = [-1, -1];
  let order = { key: null, descending: false };

  function drawHead() {
    replace(head, shownColumns.map((column) => {
      const direction = order.key === column.key ? (order.descending ? "descending" : "ascending") : "none";
      const arrow = { ascending: " ↑", descending: " ↓", none: "" }[direction];
      const title = [h("span", { class: column.quiet ? "unseen" : "heading" }, column.title), arrow ? h("span", { "aria-hidden": "true" }, arrow) : null];
      const cell = h("th", { scope: "col", class: classOf(column), title: column.hint, "aria-sort": column.sort ? direction : null },
        column.sort ? h("button", { type: "button", "data-column": column.key, onclick: () => resort(column) }, title) : h("span", {}, title));
      if (column.width) cell.style.width = `${column.width}px`;
      return cell;
    }));
    const isWide = shownColumns.some((column) => column.always);
    table.style.minWidth = isWide ? `${shownColumns.reduce((width, column) => width + (column.width ?? UNSTATED), 0)}px` : "";
  }

  function resort(column) {
    order = { key: column.key, descending: order.key === column.key ? !order.descending : Boolean(column.number) };
    drawHead();
    onsort(column, order.descending);
    [...head.querySelectorAll("button")].find((button) => button.dataset.column === column.key)?.focus();
  }

  function place(force = false) {
    const seen = element.clientHeight || 600;
    const first = paper.matches ? 0 : Math.max(0, Math.floor(element.scrollTop / ROW) - BEYOND);
    const last = Math.min(rows.length, paper.matches ? MOST_PRINTED : Math.ceil((element.scrollTop + seen) / ROW) + BEYOND);
    if (!force && first === range[0] && last === range[1]) return;
    range = [first, last];
    const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    replace(body, spacer(first * ROW), rows.slice(first, last).map((row, place) => rowOf(row, first + place)), spacer((rows.length - last) * ROW));
    if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    onsight(rows.slice(first, last));
  }

  function rowOf(row, place) {
    return h("tr", { "aria-rowindex": String(place + 2), "data-row": String(place), ...rowAttributes(row) },
      shownColumns.map((column) => h("td", { class: classOf(column) }, column.cell(row))));
  }

  function spacer(height) {
    if (height <= 0) return null;
    const cell = h("td", { colspan: String(shownColumns.length) });
    cell.style.height = `${height}px`;
    return h("tr", { class: "spacer", "aria-hidden": "true" }, cell);
  }

  function clicked(event) {
    if (!onopen || event.target.closest("a, button")) return;
    const row = event.target.closest("tr[data-row]");
    if (row) onopen(rows[Number(row.dataset.row)]);
  }

  function fit() {
    const always = columns.reduce((width, column) => width + (column.always ? column.width : 0), 0);
    const room = Math.max(element.clientWidth - always, Math.min(element.clientWidth, LEAST));
    const fitting = columns.filter((column) => column.always || (room >= (column.from ?? 0) && room < (column.until ?? Infinity)));
    if (fitting.some((column, place) => column !== shownColumns[place]) || fitting.length !== shownColumns.length) {
      shownColumns = fitting;
      drawHead();
      place(true);
    } else {
      place();
    }
  }

  const observer = new ResizeObserver(fit);
  observer.observe(element);
  const printed = () => place();
  paper.addEventListener("change", printed);
  drawHead();

  return {
    element,
    show(next) {
      rows = next;
      table.setAttribute("aria-rowcount", String(rows.length + 1));
      place(true);
    },
    columns(next) {
      columns = next;
      fit();
    },
    order(key, descending) {
      order = { key, descending };
      drawHead();
    },
    close: () => (observer.disconnect(), paper.removeEventListener("change", printed)),
  };
}

/** Compare two values for sorting; what is missing comes last, whichever way. */
export function compared(one, other, descending) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(one) || missing(other)) return Number(missing(one)) - Number(missing(other));
  const found = typeof one === "string" ? one.localeCompare(other) : one - other;
  return descending ? -found : found;
}
