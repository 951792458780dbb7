// Samples by candidates as a grid of any length: only the rows in sight exist. One walks it with the arrow keys.

import { h, replace } from "../dom.js";

const ROW = 78; // pixels, as matrix.css says, with its line
const HEAD = 58;
const BEYOND = 4; // rows that are drawn above and below those in sight
let count = 0;

/**
 * `head(column)`, `lead(row)` and `cell(row, place)` give what stands in a heading, before a row and in a cell; `row(number)` gives a
 * row, or null while it is on its way. `onsight(first, last)` is told which rows are needed, `onopen(number, place)` what is opened.
 */
export function matrixGrid({ label, head, lead, cell, row, onsight, onopen }) {
  const id = `matrix-${++count}`;
  const headRow = h("div", { class: "matrix-head", role: "row", "aria-rowindex": "1" });
  const rows = h("div", { class: "matrix-rows", role: "rowgroup" });
  const element = h("div", { class: "matrix-grid", role: "grid", tabindex: "0", "aria-label": label, onscroll: () => draw(), onkeydown: pressed, onclick: clicked }, headRow, rows);
  const active = { row: 0, column: 0 };
  let columns = [];
  let total = 0;
  let range = [-1, -1];

  function shape(nextColumns, nextTotal) {
    columns = nextColumns;
    total = nextTotal;
    element.style.setProperty("--columns", String(columns.length));
    element.setAttribute("aria-rowcount", String(total + 1));
    element.setAttribute("aria-colcount", String(columns.length + 1));
    rows.style.height = `${total * ROW}px`;
    replace(headRow, h("div", { class: "matrix-corner", role: "columnheader", "aria-colindex": "1" }, "Sample"),
      columns.map((column, place) => h("div", { class: "matrix-title", role: "columnheader", "aria-colindex": String(place + 2) }, head(column))));
    active.row = Math.min(active.row, Math.max(total - 1, 0));
    active.column = Math.min(active.column, Math.max(columns.length - 1, 0));
    draw(true);
  }

  function draw(force = false) {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - BEYOND);
    const last = Math.min(total, Math.ceil((element.scrollTop + (element.clientHeight || 600)) / ROW) + BEYOND);
    if (!force && first === range[0] && last === range[1]) return;
    range = [first, last];
    replace(rows, Array.from({ length: Math.max(last - first, 0) }, (_, place) => rowOf(first + place)));
    mark();
    onsight(first, last);
  }

  function rowOf(number) {
    const known = row(number);
    const made = h("div", { class: "matrix-row", role: "row", "aria-rowindex": String(number + 2), "aria-busy": known ? null : "true" },
      h("div", { class: "matrix-lead", role: "rowheader", "aria-colindex": "1" }, known ? lead(known) : h("span", { class: "soft" }, "…")),
      columns.map((_, place) => {
        const { kind = null, shown = null } = known ? cell(known, place) : {};
        return h("div", { class: "matrix-cell", role: "gridcell", id: idOf(number, place), "aria-colindex": String(place + 2), "data-row": String(number), "data-column": String(place), "data-kind": kind }, shown);
      }));
    made.style.transform = `translateY(${number * ROW}px)`;
    return made;
  }

  const idOf = (number, place) => `${id}-${number}-${place}`;

  function mark() {
    rows.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
    const here = document.getElementById(idOf(active.row, active.column));
    here?.setAttribute("aria-selected", "true");
    if (here) element.setAttribute("aria-activedescendant", here.id);
    else element.removeAttribute("aria-activedescendant");
  }

  /** Go to a cell, and have it in sight. */
  function go(number, place) {
    active.row = Math.min(Math.max(number, 0), Math.max(total - 1, 0));
    active.column = Math.min(Math.max(place, 0), Math.max(columns.length - 1, 0));
    const above = active.row * ROW, room = element.clientHeight - HEAD;
    if (above < element.scrollTop) element.scrollTop = above;
    else if (above + ROW > element.scrollTop + room) element.scrollTop = above + ROW - room;
    draw();
    mark();
    const here = document.getElementById(idOf(active.row, active.column));
    if (!here) return;
    const beside = headRow.firstChild.offsetWidth;
    if (here.offsetLeft - beside < element.scrollLeft) element.scrollLeft = here.offsetLeft - beside;
    else if (here.offsetLeft + here.offsetWidth > element.scrollLeft + element.clientWidth) element.scrollLeft = here.offsetLeft + here.offsetWidth - element.clientWidth;
  }

  function pressed(event) {
    if (event.target !== element || event.altKey || event.metaKey || !total) return;
    const page = Math.max(Math.floor((element.clientHeight - HEAD) / ROW) - 1, 1);
    const all = event.ctrlKey;
    const to = {
      ArrowUp: () => [active.row - 1, active.column], ArrowDown: () => [active.row + 1, active.column],
      ArrowLeft: () => [active.row, active.column - 1], ArrowRight: () => [active.row, active.column + 1],
      PageUp: () => [active.row - page, active.column], PageDown: () => [active.row + page, active.column],
      Home: () => [all ? 0 : active.row, 0], End: () => [all ? total - 1 : active.row, columns.length - 1],
    }[event.key];
    if (to) {
      event.preventDefault();
      go(...to());
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (row(active.row)) onopen(active.row, active.column);
    }
  }

  function clicked(event) {
    if (event.target.closest("a")) return;
    const here = event.target.closest("[data-row]");
    if (!here) return;
    go(Number(here.dataset.row), Number(here.dataset.column));
    if (row(active.row)) onopen(active.row, active.column);
  }

  const observer = new ResizeObserver(() => draw());
  observer.observe(element);
  return { element, shape, go, active, redraw: () => draw(true), top: () => ((element.scrollTop = 0), (active.row = 0)), close: () => observer.disconnect() };
}
