// Every sample as a small square, in order, so that one sees whether what broke lies together. The list says the same in words.

import { h, replace, s } from "../dom.js";
import { onWidth } from "../chart_parts.js";

const CELL = 9;
const SMALLEST = 3;
const TALLEST = 96;

/** `choose(place)` hears which sample was clicked. */
export function turnsStrip(turns, choose) {
  if (turns.length < 2) return null;
  const holder = h("div", { class: "strip", "aria-hidden": "true", title: "Every sample in order; click one to see it" });
  onWidth(holder, (width) => {
    let cell = CELL, columns = 1;
    do columns = Math.max(Math.floor(width / cell), 1);
    while (Math.ceil(turns.length / columns) * cell > TALLEST && --cell > SMALLEST);
    const rows = Math.ceil(turns.length / columns), side = cell > 4 ? cell - 1 : cell;
    const outlines = new Map();
    turns.forEach((turn, place) => {
      const square = `M${(place % columns) * cell} ${Math.floor(place / columns) * cell}h${side}v${side}h-${side}z`;
      outlines.set(turn, (outlines.get(turn) ?? "") + square);
    });
    const drawing = s("svg", { width: columns * cell, height: rows * cell }, [...outlines].map(([turn, d]) => s("path", { class: turn, d })));
    drawing.addEventListener("click", (event) => {
      const at = drawing.getBoundingClientRect();
      const place = Math.floor((event.clientY - at.top) / cell) * columns + Math.floor((event.clientX - at.left) / cell);
      if (place < turns.length) choose(place);
    });
    replace(holder, drawing);
  });
  return holder;
}
