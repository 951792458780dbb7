// What charts are made of: scales, round ticks, axes. Colours come from style sheets, by class.

import { s } from "./dom.js";

/** From values to pixels; `ends` are pixels. */
export function scale(low, high, ends) {
  const [start, end] = ends;
  const span = high - low;
  const at = (value) => start + (span > 0 ? (value - low) / span : 0.5) * (end - start);
  return { low, high, at, back: (pixel) => low + ((pixel - start) / (end - start)) * span };
}

/** A scale around values, with some room at both ends. */
export function around(values, ends, room = 0.08) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) [low, high] = [0, 1];
  const extra = (high - low) * room || Math.abs(high) * 0.1 || 0.1;
  return scale(low - extra, high + extra, ends);
}

/** Round numbers between the ends of a scale. */
export function ticks({ low, high }, wanted = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = power * [1, 2, 5, 10].find((factor) => span / (power * factor) <= wanted);
  const found = [];
  for (let number = Math.ceil(low / step - 1e-9); number * step <= high + step * 1e-9; number++) found.push(number * step + 0); // no −0
  return found;
}

/** A tick's text: as few digits as tell it apart. */
export const tickText = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

/** An `<svg>` with a label for those who hear it. */
export function drawing(width, height, label, ...marks) {
  return s("svg", { class: "chart", role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": label }, ...marks);
}

/** Grid lines and labels of the vertical axis. */
export function grid(y, left, right, text = tickText) {
  return ticks(y).map((tick) => [
    s("line", { class: "grid", x1: left, x2: right, y1: y.at(tick), y2: y.at(tick) }),
    s("text", { class: "tick end", x: left - 8, y: y.at(tick) + 4 }, text(tick)),
  ]);
}

/** Call back with an element's width now and whenever it changes; returns what stops that. */
export function onWidth(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now && now !== width) draw((width = now));
  });
  observer.observe(element);
  return () => observer.disconnect();
}
