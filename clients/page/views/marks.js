// What became of a candidate, in one word, one shape and one class; charts, lists and legends share them.

import { s } from "../dom.js";

export const KINDS = ["baseline", "kept", "tried", "part", "stopped", "failed", "cancelled", "running", "rejected"];

const TOLD = {
  baseline: "baseline",
  kept: "became the best",
  tried: "measured, not kept",
  part: "measured in part",
  stopped: "stopped early",
  failed: "failed",
  cancelled: "cancelled",
  running: "in flight",
  rejected: "rejected unmeasured",
};

/** The kind in words. */
export const told = (kind) => TOLD[kind];

/** The kind of a trial. */
export function kindOf(trial) {
  if (trial.status === "running") return "running";
  if (trial.status === "cancelled") return "cancelled";
  if (trial.status !== "completed") return "failed";
  if (trial.part) return "part";
  if (trial.purpose === "baseline") return "baseline";
  if (trial.kept) return "kept";
  return trial.stopped_early ? "stopped" : "tried";
}

/** The outline of a kind's shape around a point, as a piece of a path. */
export function shape(kind, x, y, r) {
  switch (kind) {
    case "baseline":
      return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
    case "stopped":
      return `M${x} ${y - r * 1.1}l${r * 1.15} ${r * 1.95}h${-2.3 * r}z`;
    case "part":
      return `M${x - r} ${y}a${r} ${r} 0 0 1 ${2 * r} 0z`;
    case "failed":
    case "cancelled":
      return `M${x - r} ${y - r}l${2 * r} ${2 * r}M${x + r} ${y - r}l${-2 * r} ${2 * r}`;
    case "rejected":
      return `M${x} ${y - r * 1.2}l${r * 1.2} ${r * 1.2}l${-r * 1.2} ${r * 1.2}l${-r * 1.2} ${-r * 1.2}z`;
    default:
      return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }
}

/** The shape by itself, beside text. */
export function glyph(kind) {
  return s("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("path", { class: `mark-${kind}`, d: shape(kind, 0, 0, 4.5) }));
}

/**
 * One path for each kind: ten thousand marks are nine elements. `marks` are `{kind, x, y}`. Where they are `dense`, those that
 * would cover each other are one, and the many are drawn without outlines, which take longest.
 */
export function markPaths(marks, r, dense = false) {
  const pieces = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  const taken = new Set();
  for (const { kind, x, y } of marks) {
    if (dense) {
      const place = `${kind}${Math.round(x / 2)},${Math.round(y / 2)}`;
      if (taken.has(place)) continue;
      taken.add(place);
    }
    pieces[kind].push(dense && kind === "tried" ? dot(round(x), round(y), r) : shape(kind, round(x), round(y), kind === "kept" ? r * 1.15 : r));
  }
  const order = ["part", "stopped", "tried", "cancelled", "rejected", "failed", "running", "kept", "baseline"];
  return order.filter((kind) => pieces[kind].length).map((kind) => s("path", { class: `mark-${kind}`, d: pieces[kind].join("") }));
}

/** As good as a circle when it is small, and drawn sooner. */
const dot = (x, y, r) => `M${x - r} ${round(y - 0.4 * r)}l${0.6 * r} ${-0.6 * r}h${0.8 * r}l${0.6 * r} ${0.6 * r}v${0.8 * r}l${-0.6 * r} ${0.6 * r}h${-0.8 * r}l${-0.6 * r} ${-0.6 * r}z`;
const round = (value) => Math.round(value * 10) / 10;
