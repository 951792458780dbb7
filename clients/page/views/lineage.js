// Who came from whom: the true lineage, several parents included, with what became of each candidate.

import { onWidth } from "../chart_parts.js";
import { h, replace, s, say } from "../dom.js";
import { whole, words } from "../format.js";
import { edge, piecesOf, piecewise } from "./lineage_drawing.js";
import { laidOut, wayTo } from "./lineage_layout.js";
import { glyph, kindOf, KINDS, told } from "./marks.js";
import { ringOver, tipIn, tipLines, tipSentence } from "./trial_tip.js";

const COLUMN = 64, WIDEST = 130, ROW = 40, MARGIN = 30;
const ZOOMS = [0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.3];
const MOST_REJECTED = 300;
const DENSE = 2000;

export function mount(element, { run, subscribe, navigate, announce }) {
  const withRejected = h("input", { id: "with-rejected", type: "checkbox", checked: run.rejections.length <= MOST_REJECTED, onchange: () => arrange() });
  const closer = h("button", { type: "button", class: "quiet", onclick: () => zoomBy(1), "aria-label": "Zoom in" }, "+");
  const farther = h("button", { type: "button", class: "quiet", onclick: () => zoomBy(-1), "aria-label": "Zoom out" }, "−");
  const scroll = h("div", { class: "graph-scroll", tabindex: "0", role: "application", "aria-label": "Lineage. Left goes to the parent, right to the child, up and down within the round, Enter opens.", onscroll: scrolled, onkeydown: key, onpointermove: point, onpointerleave: () => document.activeElement !== scroll && choose(null), onclick: () => open(chosen) });
  const place = h("div", { class: "plot" }, scroll);
  const tip = tipIn(place);
  const legend = h("ul", { class: "legend" });
  const summary = h("p", { class: "soft small" });
  replace(element,
    h("div", { class: "card-head" }, h("h2", {}, "Lineage"),
      h("div", { class: "tools" }, h("label", { class: "check" }, withRejected, "rejected proposals"), h("button", { type: "button", class: "quiet", onclick: toBest }, "Go to the best"), h("span", {}, farther, closer))),
    summary, place, legend,
  );

  let zoom = null;
  let nodes = [], edges = [], pieces = new Map(), byId = new Map(), children = new Map();
  let layout = { columns: [], width: 0, height: 0 }, label = "";
  let chosen = null;
  let width = 0;
  let first = true;
  let inSight = () => {}, reach = 10;
  const nearEdges = s("path", { class: "edge-near" });
  const overlay = h("div", { class: "graph-overlay", "aria-hidden": "true" }, s("svg", { class: "graph near" }, nearEdges));
  const ring = ringOver(overlay);
  place.insertBefore(overlay, place.lastChild);

  /** Who there is and who came from whom; only what is new changes it. */
  function arrange() {
    nodes = nodesOf(run, withRejected.checked);
    byId = new Map(nodes.map((node) => [node.id, node]));
    children = childrenOf(nodes);
    layout = laidOut(nodes);
    edges = edgesOf(nodes, byId, wayTo(run.winner, byId));
    for (const node of nodes) {
      node.column = node.x;
      node.row = node.y;
    }
    pieces = piecesOf(nodes, edges);
    const summed = summaryOf(nodes);
    say(summary, summed);
    label = `Lineage of ${nodes.length} candidates: ${summed}`;
    drawLegend();
    draw();
  }

  /** All of it at the present zoom. */
  function draw() {
    if (!width) return;
    zoom ??= fitting(layout.width, width);
    const step = Math.max(COLUMN * zoom, Math.min(WIDEST * zoom, (width - 2 * MARGIN) / Math.max(1, layout.width - 1)));
    for (const node of nodes) {
      node.x = MARGIN + node.column * step;
      node.y = MARGIN + node.row * ROW * zoom;
    }
    const [across, down] = [Math.max(width - 2, 2 * MARGIN + (layout.width - 1) * step), 2 * MARGIN + (layout.height - 1) * ROW * zoom + 12];
    const radius = Math.max(2.2, 7.5 * zoom ** 0.7);
    reach = radius + 4;
    const group = s("g");
    const svg = s("svg", { class: "graph", role: "img", width: across, height: down, viewBox: `0 0 ${across} ${down}`, "aria-label": label }, group);
    const dense = nodes.length > DENSE && zoom < 0.6;
    svg.classList.toggle("dense", dense);
    const show = piecewise(group, pieces, { radius, labels: zoom >= 0.8, dense });
    inSight = (left, right) => show((left - MARGIN) / step, (right - MARGIN) / step);
    const atEnd = scroll.scrollLeft + scroll.clientWidth > scroll.scrollWidth - 40;
    replace(scroll, svg);
    if (first) lookAt(byId.get(run.winner) ?? nodes.at(-1));
    else if (atEnd && !run.isOver) scroll.scrollLeft = scroll.scrollWidth;
    first = false;
    look();
    closer.disabled = zoom === ZOOMS.at(-1);
    farther.disabled = zoom === ZOOMS[0];
    choose(chosen ? byId.get(chosen.id) ?? null : null);
  }

  function drawLegend() {
    const kinds = new Set(nodes.map((node) => node.kind));
    replace(legend, KINDS.filter((kind) => kinds.has(kind)).map((kind) => h("li", {}, glyph(kind), told(kind))), edges.some(({ kind }) => kind === "edge-way") ? h("li", {}, wayGlyph(), "way to the best") : null);
  }

  function scrolled() {
    look();
    if (chosen) choose(chosen.x > scroll.scrollLeft && chosen.x < scroll.scrollLeft + width ? chosen : null);
  }

  function look() {
    inSight(scroll.scrollLeft, scroll.scrollLeft + width);
  }

  function zoomBy(step) {
    const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scroll.scrollWidth;
    zoom = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, ZOOMS.indexOf(zoom) + step))];
    draw();
    scroll.scrollLeft = middle * scroll.scrollWidth - scroll.clientWidth / 2;
    look();
  }

  function choose(node, { speak = false } = {}) {
    chosen = node;
    if (!node) {
      nearEdges.setAttribute("d", "");
      ring.hide();
      return tip.hide();
    }
    if (speak) intoView(node);
    const [x, y] = [node.x - scroll.scrollLeft, node.y - scroll.scrollTop];
    nearEdges.setAttribute("d", edgesNear(node));
    nearEdges.setAttribute("transform", `translate(${-scroll.scrollLeft} ${-scroll.scrollTop})`);
    ring.show(x, y, reach);
    if (speak) announce(node.trial ? tipSentence(node.trial, node.kind) : `${words(node.rejection.reason_code)}: ${node.rejection.message}`);
    tip.show(node.trial ? tipLines(node.trial, node.kind) : rejectionLines(node.rejection), x, y);
  }

  /** Its ancestors as far as they are in sight, and its children. */
  function edgesNear(node) {
    const found = (children.get(node.id) ?? []).map((child) => edge(node, child));
    const seen = new Set();
    const open = [node];
    while (open.length) {
      const next = open.pop();
      if (seen.has(next.id) || next.x < scroll.scrollLeft) continue;
      seen.add(next.id);
      for (const parent of next.parents.map((id) => byId.get(id)).filter(Boolean)) {
        found.push(edge(parent, next));
        open.push(parent);
      }
    }
    return found.join("");
  }

  function intoView(node) {
    const inside = (value, start, size) => (value < start + 50 ? value - 50 : value > start + size - 50 ? value + 50 - size : start);
    scroll.scrollLeft = inside(node.x, scroll.scrollLeft, scroll.clientWidth);
    scroll.scrollTop = inside(node.y, scroll.scrollTop, scroll.clientHeight);
  }

  function lookAt(node) {
    if (!node) return;
    scroll.scrollLeft = node.x - scroll.clientWidth / 2;
    scroll.scrollTop = node.y - scroll.clientHeight / 2;
  }

  function toBest() {
    const best = byId.get(run.winner);
    if (!best) return;
    scroll.focus();
    lookAt(best);
    choose(best, { speak: true });
  }

  function point(event) {
    const box = scroll.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left + scroll.scrollLeft, event.clientY - box.top + scroll.scrollTop];
    let best = null, least = Math.max(14, 22 * zoom) ** 2;
    for (const node of nodes) {
      const distance = (node.x - x) ** 2 + (node.y - y) ** 2;
      if (distance < least) [best, least] = [node, distance];
    }
    if (best !== chosen) choose(best);
  }

  function key(event) {
    if (event.key === "Escape") return choose(null);
    if (event.key === "Enter") return open(chosen);
    if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return undefined;
    event.preventDefault();
    return choose(nextOf(chosen, event.key) ?? chosen, { speak: true });
  }

  function nextOf(node, pressed) {
    if (pressed === "Home" || !node) return layout.columns[0]?.[0];
    if (pressed === "End") return byId.get(run.winner);
    if (pressed === "ArrowLeft") return byId.get(node.parents.find((id) => byId.has(id)));
    if (pressed === "ArrowRight") return (children.get(node.id) ?? []).find((child) => child.straight) ?? children.get(node.id)?.[0];
    const column = layout.columns.find((found) => found.includes(node));
    return column[column.indexOf(node) + (pressed === "ArrowUp" ? -1 : 1)];
  }

  function open(node) {
    if (node?.trial) navigate(["runs", run.id, "candidates", node.id]);
  }

  const stop = onWidth(scroll, (now) => {
    width = now;
    if (nodes.length) draw();
    else arrange();
  });
  const unsubscribe = subscribe((changed) => {
    if (changed.has("trials") || changed.has("rejections")) arrange();
  });
  return () => {
    stop();
    unsubscribe();
  };
}

function nodesOf(run, withRejected) {
  const nodes = [...run.searching, ...run.inPart].map((trial) => {
    const kind = kindOf(trial);
    return { id: trial.candidate_id, trial, kind, round: trial.round, parents: trial.parents ?? [], score: trial.part ? undefined : trial.objective_score, straight: kind === "kept" || kind === "baseline" };
  });
  if (!withRejected) return nodes;
  const rejected = run.rejections.map((rejection) => ({ id: `rejected/${rejection.round}/${rejection.proposed_index}`, rejection, kind: "rejected", round: rejection.round, parents: rejection.parent_candidate_ids, straight: false }));
  return nodes.concat(rejected);
}

function childrenOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    for (const parent of node.parents) {
      if (!found.has(parent)) found.set(parent, []);
      found.get(parent).push(node);
    }
  }
  return found;
}

function edgesOf(nodes, byId, way) {
  return nodes.flatMap((node) => node.parents.filter((parent) => byId.has(parent)).map((parent) => {
    const kind = node.kind === "rejected" ? "edge-rejected" : way.has(node.id) && way.has(parent) ? "edge-way" : "edge";
    return { from: byId.get(parent), to: node, kind };
  }));
}

function fitting(columns, width) {
  const wanted = width / (columns * COLUMN + 2 * MARGIN);
  return ZOOMS.findLast((zoom) => zoom <= Math.max(wanted, 0.4) && zoom <= 1) ?? ZOOMS[0];
}

function rejectionLines(rejection) {
  return [h("div", { class: "with-glyph" }, glyph("rejected"), h("strong", {}, words(rejection.reason_code))), h("div", {}, `Round ${rejection.round}, proposal ${rejection.proposed_index + 1}`), h("div", { class: "why" }, rejection.message)];
}

function summaryOf(nodes) {
  const counted = new Map(KINDS.map((kind) => [kind, 0]));
  for (const node of nodes) counted.set(node.kind, counted.get(node.kind) + 1);
  const several = nodes.filter((node) => node.parents.length > 1).length;
  return [[...counted].filter(([, count]) => count).map(([kind, count]) => `${whole(count)} ${told(kind)}`).join(" · "), several ? ` · ${whole(several)} with several parents` : ""].join("");
}

const wayGlyph = () => s("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("path", { class: "edge-way", d: "M-7 0H7" }));
