// Score over rounds: every trial with its interval, the best so far as a line, and what is in flight.

import { around, drawing, grid, onWidth, scale, ticks } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { score } from "../format.js";
import { glyph, kindOf, markPaths, told } from "./marks.js";
import { ringOver, tipIn, tipLines, tipSentence } from "./trial_tip.js";

const HEIGHT = 320;
const NARROW = 520;
const LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 34;
const DENSE = 1500;
const NEAR = 26;
const SPANS = [0, 20, 100, 500];
const LEGEND = ["baseline", "kept", "tried", "stopped", "failed", "running"];

export function mount(element, { run, subscribe, navigate, announce }) {
  const span = h("select", { id: "score-span", onchange: () => draw() });
  const plot = h("div", { class: "plot", tabindex: "0", role: "application", "aria-label": "Score over rounds. Left and right go from trial to trial, Enter opens one.", onkeydown: key, onpointermove: point, onpointerleave: leave, onclick: () => open(chosen) });
  const legend = h("ul", { class: "legend" });
  const tip = tipIn(plot);
  const ring = ringOver(plot);
  const tools = h("div", { class: "tools" }, h("label", { for: "score-span" }, "Show"), span);
  replace(element, h("div", { class: "card-head" }, h("h2", {}, "Score over rounds"), tools), plot, legend);

  let width = 0;
  let points = [];
  let chosen = null;
  let drawn = null;

  function draw() {
    if (!width) return;
    const trials = run.searching;
    const lastRound = Math.max(run.detail.round, trials.at(-1)?.round ?? 0, 1);
    offerSpans(lastRound);
    const first = Number(span.value) ? Math.max(0, lastRound - Number(span.value) + 1) : 0;
    const shown = trials.filter((trial) => trial.round >= first);
    const height = width < NARROW ? 240 : HEIGHT;
    const x = scale(first - 0.5, lastRound + 0.5, [LEFT, width - RIGHT]);
    const y = around(valuesOf(shown), [height - BOTTOM, TOP]);
    points = placed(shown, x, y, (width - LEFT - RIGHT) / (lastRound - first + 1));
    const dense = points.length > DENSE;
    const svg = drawing(width, height, labelOf(run, trials),
      grid(y, LEFT, width - RIGHT),
      roundTicks(x, width).map((tick) => s("text", { class: "tick middle", x: x.at(tick), y: height - BOTTOM + 18 }, String(tick))),
      s("text", { class: "axis middle", x: (LEFT + width) / 2, y: height - 2 }, "round"),
      baselineLine(run, y, width),
      s("path", { class: "interval", d: dense ? mergedIntervals(points, y) : intervals(points, y) }),
      s("path", { class: "best-line", d: bestLine(points, run, x, y, width - RIGHT) }),
      markPaths(points, dense ? 2 : points.length > 200 ? 3.5 : 4.5, dense),
    );
    svg.classList.toggle("dense", dense);
    if (drawn) drawn.replaceWith(svg);
    else plot.prepend(svg);
    drawn = svg;
    if (chosen) choose(points.find((point) => point.trial.candidate_id === chosen.trial.candidate_id) ?? null);
    const kinds = new Set(points.map((point) => point.kind));
    replace(legend,
      LEGEND.filter((kind) => kinds.has(kind)).map((kind) => h("li", {}, glyph(kind), told(kind))),
      h("li", {}, lineGlyph(), "best so far"),
      points.some(({ trial }) => trial.low < trial.high) ? h("li", {}, barGlyph(), "95% interval over samples") : null,
    );
  }

  function offerSpans(lastRound) {
    const offered = SPANS.filter((count) => count < lastRound);
    if (span.options.length === offered.length) return;
    const kept = span.value;
    replace(span, offered.map((count) => h("option", { value: String(count) }, count ? `last ${count} rounds` : "all rounds")));
    span.value = offered.map(String).includes(kept) ? kept : "0";
    tools.hidden = offered.length < 2;
  }

  function choose(found, { speak = false, x, y } = {}) {
    chosen = found;
    if (!found) {
      ring.hide();
      return tip.hide();
    }
    ring.show(found.x, found.y, 8);
    tip.show(tipLines(found.trial, found.kind), x ?? found.x, y ?? found.y);
    if (speak) announce(tipSentence(found.trial, found.kind));
  }

  function point(event) {
    const box = plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null, least = NEAR * NEAR;
    for (const candidate of points) {
      const distance = (candidate.x - x) ** 2 + (candidate.y - y) ** 2;
      if (distance < least) [best, least] = [candidate, distance];
    }
    if (best !== chosen) choose(best);
  }

  function leave() {
    if (document.activeElement !== plot) choose(null);
  }

  function key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") return choose(null);
    if (event.key === "Enter") return open(chosen);
    if (!step || !points.length) return undefined;
    event.preventDefault();
    const now = chosen ? points.indexOf(chosen) : step > 0 ? -1 : points.length;
    return choose(points[Math.min(points.length - 1, Math.max(0, now + step))], { speak: true });
  }

  function open(found) {
    if (found) navigate(["runs", run.id, "candidates", found.trial.candidate_id]);
  }

  const stop = onWidth(plot, (now) => {
    width = now;
    draw();
  });
  const unsubscribe = subscribe((changed) => {
    if (changed.has("trials") || changed.has("rounds")) draw();
  });
  return () => {
    stop();
    unsubscribe();
  };
}

/** Where each trial stands; those of one round share its place side by side. */
function placed(trials, x, y, slot) {
  const sizes = new Map();
  for (const trial of trials) sizes.set(trial.round, (sizes.get(trial.round) ?? 0) + 1);
  const seen = new Map();
  let best = null;
  return trials.map((trial) => {
    const count = sizes.get(trial.round), place = seen.get(trial.round) ?? 0;
    seen.set(trial.round, place + 1);
    if (trial.kept || trial.purpose === "baseline") best = trial.objective_score ?? best;
    const aside = count > 1 ? ((place + 0.5) / count - 0.5) * Math.min(slot * 0.86, 26 * count) : 0;
    const value = trial.objective_score ?? null;
    const kind = kindOf(trial);
    const height = value !== null ? y.at(value) : kind === "running" && best !== null ? y.at(best) : y.at(y.low) - 6;
    return { trial, kind, value, x: x.at(trial.round) + aside, y: height };
  });
}

function* valuesOf(trials) {
  for (const trial of trials) {
    if (trial.objective_score === undefined) continue;
    yield trial.objective_score;
    if (trial.low !== undefined) yield trial.low;
    if (trial.high !== undefined) yield trial.high;
  }
}

function intervals(points, y) {
  const pieces = [];
  for (const { trial, x } of points) {
    if (trial.low < trial.high) pieces.push(`M${x.toFixed(1)} ${y.at(trial.low).toFixed(1)}V${y.at(trial.high).toFixed(1)}`);
  }
  return pieces.join("");
}

/** Where several stand in one column of pixels, the part that any of them covers. */
function mergedIntervals(points, y) {
  const columns = new Map();
  for (const { trial, x } of points) {
    if (!(trial.low < trial.high)) continue;
    const column = Math.round(x);
    if (!columns.has(column)) columns.set(column, []);
    columns.get(column).push([trial.low, trial.high]);
  }
  let path = "";
  for (const [column, spans] of columns) {
    spans.sort((one, other) => one[0] - other[0]);
    let [low, high] = spans[0];
    for (const [nextLow, nextHigh] of [...spans, [Infinity, Infinity]]) {
      if (nextLow <= high) {
        high = Math.max(high, nextHigh);
      } else {
        path += `M${column} ${y.at(low).toFixed(1)}V${y.at(high).toFixed(1)}`;
        [low, high] = [nextLow, nextHigh];
      }
    }
  }
  return path;
}

function bestLine(points, run, x, y, right) {
  const first = points[0]?.trial.round ?? 0;
  const before = run.rounds.findLast((round) => round.round_index < first && round.best_so_far !== null);
  let path = before ? `M${x.at(first)} ${y.at(before.best_so_far)}` : "";
  for (const { kind, value, x: across } of points) {
    if (value === null || (kind !== "kept" && kind !== "baseline")) continue;
    path += path ? `H${across.toFixed(1)}V${y.at(value).toFixed(1)}` : `M${across.toFixed(1)} ${y.at(value).toFixed(1)}`;
  }
  return path && `${path}H${right}`;
}

function baselineLine(run, y, width) {
  const value = run.detail.baseline_score;
  if (value === null || value < y.low || value > y.high) return null;
  return s("line", { class: "baseline-line", x1: LEFT, x2: width - RIGHT, y1: y.at(value), y2: y.at(value) });
}

const roundTicks = (x, width) => ticks(x, Math.max(2, Math.floor(width / 70))).filter(Number.isInteger);

function labelOf(run, trials) {
  const { round, headline: { in_search: { best_score: best, baseline_score: baseline } } } = run.detail;
  if (best === null) return `Score over rounds: ${trials.length} trials, no score yet`;
  return `Score over rounds, in the search: ${trials.length} trials in ${round} rounds; baseline ${score(baseline)}, best ${score(best)}. The trials are listed under Trials.`;
}

const lineGlyph = () => s("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("path", { class: "best-line", d: "M-7 4H0V-4H7" }));
const barGlyph = () => s("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("path", { class: "interval", d: "M0 -7V7" }));
