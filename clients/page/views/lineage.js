// Who came from whom: the true lineage, several parents included, with what became of each candidate.

import { onWidth } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { score, whole, words } from "../format.js";
import { laidOut, wayTo } from "./lineage_layout.js";
import { glyph, kindOf, KINDS, markPaths, told } from "./marks.js";
import { tipIn, tipLines, tipSentence } from "./trial_tip.js";

const COLUMN = 64, WIDEST = 130, ROW = 40, MARGIN = 30;
const ZOOMS = [0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.3];
const MOST_LABELS = 600;
const MOST_REJECTED = 300;

export function mount(element, { run, subscribe, navigate, announce }) {
  const withRejected = h("input", { id: "with-rejected", type: "checkbox", checked: run.rejections.length <= MOST_REJECTED, onchange: () => draw() });
  const closer = h("button", { type: "button", class: "quiet", onclick: () => zoomBy(1), "aria-label": "Zoom in" }, "+");
  const farther = h("button", { type: "button", class: "quiet", onclick: () => zoomBy(-1), "aria-label": "Zoom out" }, "−");
  const scroll = h("div", { class: "graph-scroll", tabindex: "0", role: "application", "aria-label": "Lineage. Left goes to the parent, right to the child, up and down within the round, Enter opens.", onkeydown: key, onpointermove: point, onpointerleave: () => document.activeElement !== scroll && choose(null), onclick: () => open(chosen) });
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
  let nodes = [], byId = new Map(), columns = [], children = new Map();
  let chosen = null;
  let width = 0;
  let first = true;
  const near = s("path", { class: "edge-near" });
  const ring = s("circle", { class: "focus-ring", visibility: "hidden" });

  function draw() {
    if (!width) return;
    nodes = nodesOf(run, withRejected.checked);
    byId = new Map(nodes.map((node) => [node.id, node]));
    children = childrenOf(nodes);
    const layout = laidOut(nodes);
    columns = layout.columns;
    zoom ??= fitting(layout.width, width);
    const step = Math.max(COLUMN * zoom, Math.min(WIDEST * zoom, (width - 2 * MARGIN) / Math.max(1, layout.width - 1)));
    for (const node of nodes) {
      node.x = MARGIN + node.x * step;
      node.y = MARGIN + node.y * ROW * zoom;
    }
    const [across, down] = [Math.max(width - 2, 2 * MARGIN + (layout.width - 1) * step), 2 * MARGIN + (layout.height - 1) * ROW * zoom + 12];
    const radius = Math.max(2.2, 7.5 * zoom ** 0.7);
    const way = wayTo(run.detail.best_candidate_id, byId);
    const [plain, rejected, best] = [[], [], []];
    for (const node of nodes) {
      for (const parent of node.parents) {
        const from = byId.get(parent);
        if (from) (node.kind === "rejected" ? rejected : way.has(node.id) && way.has(parent) ? best : plain).push(edge(from, node));
      }
    }
    const svg = s("svg", { class: "graph", role: "img", width: across, height: down, viewBox: `0 0 ${across} ${down}`, "aria-label": labelOf(nodes) },
      s("path", { class: "edge", d: plain.join("") }), s("path", { class: "edge-rejected", d: rejected.join("") }), s("path", { class: "edge-way", d: best.join("") }), near,
      markPaths(nodes, radius),
      zoom >= 0.8 && nodes.length <= MOST_LABELS ? nodes.filter((node) => node.score !== undefined).map((node) => s("text", { class: "middle", x: node.x, y: node.y + radius + 13 }, score(node.score, 3))) : null,
      ring,
    );
    ring.setAttribute("r", radius + 4);
    const atEnd = scroll.scrollLeft + scroll.clientWidth > scroll.scrollWidth - 40;
    replace(scroll, svg);
    if (first) lookAt(byId.get(run.detail.best_candidate_id) ?? nodes.at(-1));
    else if (atEnd && !run.isOver) scroll.scrollLeft = scroll.scrollWidth;
    first = false;
    const kinds = new Set(nodes.map((node) => node.kind));
    replace(legend, KINDS.filter((kind) => kinds.has(kind)).map((kind) => h("li", {}, glyph(kind), told(kind))), best.length ? h("li", {}, wayGlyph(), "way to the best") : null);
    replace(summary, summaryOf(nodes));
    closer.disabled = zoom === ZOOMS.at(-1);
    farther.disabled = zoom === ZOOMS[0];
    choose(chosen ? byId.get(chosen.id) ?? null : null);
  }

  function zoomBy(step) {
    const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scroll.scrollWidth;
    zoom = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, ZOOMS.indexOf(zoom) + step))];
    draw();
    scroll.scrollLeft = middle * scroll.scrollWidth - scroll.clientWidth / 2;
  }

  function choose(node, { speak = false } = {}) {
    chosen = node;
    ring.setAttribute("visibility", node ? "visible" : "hidden");
    near.setAttribute("d", node ? nearEdges(node) : "");
    if (!node) return tip.hide();
    ring.setAttribute("cx", node.x);
    ring.setAttribute("cy", node.y);
    if (speak) {
      intoView(node);
      announce(node.trial ? tipSentence(node.trial, node.kind) : `${words(node.rejection.reason_code)}: ${node.rejection.message}`);
    }
    tip.show(node.trial ? tipLines(node.trial, node.kind) : rejectionLines(node.rejection), node.x - scroll.scrollLeft, node.y - scroll.scrollTop);
  }

  function nearEdges(node) {
    const up = [...wayTo(node.id, byId)].flatMap((id) => byId.get(id).parents.filter((parent) => byId.has(parent)).map((parent) => edge(byId.get(parent), byId.get(id))));
    return [...up, ...(children.get(node.id) ?? []).map((child) => edge(node, child))].join("");
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
    const best = byId.get(run.detail.best_candidate_id);
    if (!best) return;
    scroll.focus();
    lookAt(best);
    choose(best, { speak: true });
  }

  function point(event) {
    const box = scroll.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left + scroll.scrollLeft, event.clientY - box.top + scroll.scrollTop];
    const reach = Math.max(14, 22 * zoom);
    let best = null, least = reach * reach;
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
    if (pressed === "Home" || !node) return columns[0]?.[0];
    if (pressed === "End") return byId.get(run.detail.best_candidate_id);
    if (pressed === "ArrowLeft") return byId.get(node.parents.find((id) => byId.has(id)));
    if (pressed === "ArrowRight") return (children.get(node.id) ?? []).find((child) => child.straight) ?? children.get(node.id)?.[0];
    const column = columns.find((found) => found.includes(node));
    return column[column.indexOf(node) + (pressed === "ArrowUp" ? -1 : 1)];
  }

  function open(node) {
    if (node?.trial) navigate(["runs", run.id, "candidates", node.id]);
  }

  const stop = onWidth(scroll, (now) => {
    width = now;
    draw();
  });
  const unsubscribe = subscribe((changed) => {
    if (changed.has("trials") || changed.has("rejections")) draw();
  });
  return () => {
    stop();
    unsubscribe();
  };
}

function nodesOf(run, withRejected) {
  const nodes = run.searching.map((trial) => {
    const kind = kindOf(trial);
    return { id: trial.candidate_id, trial, kind, round: trial.round, parents: trial.parents ?? [], score: trial.objective_score, straight: kind === "kept" || kind === "baseline" };
  });
  if (!withRejected) return nodes;
  const rejected = run.rejections.map((rejection) => ({ id: `rejected/${rejection.round}/${rejection.proposed_index}`, rejection, kind: "rejected", round: rejection.round, parents: rejection.parent_candidate_ids, straight: false }));
  return nodes.concat(rejected);
}

function childrenOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    for (const parent of node.parents) found.set(parent, [...(found.get(parent) ?? []), node]);
  }
  return found;
}

function edge(from, to) {
  const half = (from.x + to.x) / 2;
  const [fx, fy, tx, ty, m] = [from.x, from.y, to.x, to.y, half].map((value) => value.toFixed(1));
  return `M${fx} ${fy}C${m} ${fy} ${m} ${ty} ${tx} ${ty}`;
}

function fitting(columns, width) {
  const wanted = width / (columns * COLUMN + 2 * MARGIN);
  return ZOOMS.findLast((zoom) => zoom <= Math.max(wanted, 0.4) && zoom <= 1) ?? ZOOMS[0];
}

function rejectionLines(rejection) {
  return [h("div", { class: "with-glyph" }, glyph("rejected"), h("strong", {}, words(rejection.reason_code))), h("div", {}, `Round ${rejection.round}, proposal ${rejection.proposed_index + 1}`), h("div", { class: "why" }, rejection.message)];
}

function summaryOf(nodes) {
  const counts = KINDS.map((kind) => [kind, nodes.filter((node) => node.kind === kind).length]).filter(([, count]) => count);
  const several = nodes.filter((node) => node.parents.length > 1).length;
  return [counts.map(([kind, count]) => `${whole(count)} ${told(kind)}`).join(" · "), several ? ` · ${whole(several)} with several parents` : ""].join("");
}

const labelOf = (nodes) => `Lineage of ${nodes.length} candidates: ${summaryOf(nodes)}`;
const wayGlyph = () => s("svg", { class: "glyph", viewBox: "-7 -7 14 14", "aria-hidden": "true" }, s("path", { class: "edge-way", d: "M-7 0H7" }));
