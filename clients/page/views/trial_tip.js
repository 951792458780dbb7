// What a mark stands for, beside the pointer, and spoken for those who go with the arrow keys.

import { h, replace } from "../dom.js";
import { cost, score, words } from "../format.js";
import { glyph, kindOf, told } from "./marks.js";

/** The trial in a few lines. */
export function tipLines(trial, kind = kindOf(trial)) {
  const interval = trial.low !== undefined && trial.high !== undefined ? ` [${score(trial.low)}, ${score(trial.high)}]` : "";
  const spent = [trial.passed !== undefined && trial.total ? `${trial.passed} of ${trial.total} passed` : null, trial.part ? `${trial.samples} of ${trial.split_samples} samples` : null, trial.cost ? `cost ${cost(trial.cost)}` : null];
  return [
    h("div", { class: "with-glyph" }, glyph(kind), h("strong", {}, score(trial.objective_score)), h("span", { class: "soft" }, interval)),
    h("div", {}, `Round ${trial.round} · ${told(kind)}`, trial.verdict ? ` · ${words(trial.verdict)}` : ""),
    h("div", { class: "mono soft" }, trial.candidate_id),
    spent.some(Boolean) ? h("div", { class: "soft" }, spent.filter(Boolean).join(" · ")) : null,
    h("div", { class: "why" }, trial.error ?? trial.why ?? trial.rationale ?? ""),
  ];
}

/** The same as one sentence. */
export function tipSentence(trial, kind = kindOf(trial)) {
  const verdict = trial.verdict ? `, ${words(trial.verdict)}` : "";
  return `${trial.candidate_id}, round ${trial.round}: ${trial.objective_score === undefined ? "no score" : `score ${score(trial.objective_score)}`}, ${told(kind)}${verdict}`;
}

/** A tip that stands beside a point of a positioned place and stays inside of it. */
export function tipIn(place) {
  const tip = h("div", { class: "tip", hidden: true });
  place.append(tip);
  return {
    show(lines, x, y, within = { left: 0, right: place.clientWidth }) {
      replace(tip, lines);
      tip.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = tip;
      const left = x + 14 + width > within.right ? x - 14 - width : x + 14;
      tip.style.left = `${Math.max(within.left, Math.min(left, within.right - width))}px`;
      tip.style.top = `${Math.max(0, y - height / 2)}px`;
    },
    hide() {
      tip.hidden = true;
    },
  };
}

/** A ring around a point, on a layer of its own: moving it never draws the chart again. */
export function ringOver(place) {
  const ring = h("div", { class: "focus-ring", hidden: true });
  place.append(ring);
  return {
    element: ring,
    show(x, y, r) {
      ring.hidden = false;
      ring.style.width = ring.style.height = `${2 * r}px`;
      ring.style.transform = `translate(${x - r}px, ${y - r}px)`;
    },
    hide() {
      ring.hidden = true;
    },
  };
}
