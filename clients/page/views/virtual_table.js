// A table of any length of which only the rows in sight exist, with the meaning of a table for those who hear it.

import { h, replace } from "../dom.js";

const ROW = 41; // pixels, as parts.css says, with its line
const BEYOND = 8;

/**
 * `columns`: `{key, title, width, number, sort(row), cell(row), from, until}`; `from` and `until`: the widths at which it is shown.
 * Returns `{element, show(rows), sorted}`; `onsort(key, descending)` is told of clicks on headings.
 */
export function virtualTable({ label, columns, onsort, onopen, rowAttributes = () => ({}) }) {
  const body = h("tbody");
  const head = h("tr", { "aria-rowindex": "1" });
  const table = h("table", { "aria-label": label }, h("thead", {}, head), body);
  const element = h("div", { class: "virtual", tabindex: "0", role: "region", "aria-label": label, onscroll: () => place(), onclick: clicked }, table);
  let rows = [];
  let shownColumns = columns;
  let range = [-1, -1];
  let order = { key: null, descending: false };

  function drawHead() {
    replace(head, shownColumns.map((column) => {
      const direction = order.key === column.key ? (order.descending ? "descending" : "ascending") : "none";
      const arrow = { ascending: " ↑", descending: " ↓", none: "" }[direction];
      const title = [column.title, arrow ? h("span", { "aria-hidden": "true" }, arrow) : null];
      const cell = h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": column.sort ? direction : null },
        column.sort ? h("button", { type: "button", onclick: () => resort(column) }, title) : h("span", {}, title));
      if (column.width) cell.style.width = `${column.width}px`;
      return cell;
    }));
  }

  function resort(column) {
    order = { key: column.key, descending: order.key === column.key ? !order.descending : Boolean(column.number) };
    drawHead();
    onsort(column, order.descending);
    [...head.querySelectorAll("button")].find((button) => button.textContent.startsWith(column.title))?.focus();
  }

  function place(force = false) {
    const seen = element.clientHeight || 600;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - BEYOND);
    const last = Math.min(rows.length, Math.ceil((element.scrollTop + seen) / ROW) + BEYOND);
    if (!force && first === range[0] && last === range[1]) return;
    range = [first, last];
    const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    replace(body, spacer(first * ROW), rows.slice(first, last).map((row, place) => rowOf(row, first + place)), spacer((rows.length - last) * ROW));
    if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }

  function rowOf(row, place) {
    return h("tr", { "aria-rowindex": String(place + 2), "data-row": String(place), ...rowAttributes(row) },
      shownColumns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(row))));
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

  const observer = new ResizeObserver(() => {
    const fitting = columns.filter((column) => element.clientWidth >= (column.from ?? 0) && element.clientWidth < (column.until ?? Infinity));
    if (fitting.some((column, place) => column !== shownColumns[place]) || fitting.length !== shownColumns.length) {
      shownColumns = fitting;
      drawHead();
      place(true);
    } else {
      place();
    }
  });
  observer.observe(element);
  drawHead();

  return {
    element,
    show(next) {
      rows = next;
      table.setAttribute("aria-rowcount", String(rows.length + 1));
      place(true);
    },
    order(key, descending) {
      order = { key, descending };
      drawHead();
    },
    close: () => observer.disconnect(),
  };
}

/** Compare two values for sorting; what is missing comes last, whichever way. */
export function compared(one, other, descending) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(one) || missing(other)) return Number(missing(one)) - Number(missing(other));
  const found = typeof one === "string" ? one.localeCompare(other) : one - other;
  return descending ? -found : found;
}
