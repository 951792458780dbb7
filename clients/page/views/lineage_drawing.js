// The lineage as marks and edges, in pieces: only those in sight are there, however many candidates a run has.

import { s } from "../dom.js";
import { score } from "../format.js";
import { markPaths } from "./marks.js";

const PIECE = 10; // columns

/** An edge from a parent to its child. */
export function edge(from, to) {
  const half = (from.x + to.x) / 2;
  const [fx, fy, tx, ty, m] = [from.x, from.y, to.x, to.y, half].map((value) => value.toFixed(1));
  return `M${fx} ${fy}C${m} ${fy} ${m} ${ty} ${tx} ${ty}`;
}

/** Pieces of a graph, `{nodes, edges}`, by the columns that they cover. `edges` are `{from, to, kind}`. */
export function piecesOf(nodes, edges) {
  const pieces = new Map();
  const at = (place) => {
    if (!pieces.has(place)) pieces.set(place, { nodes: [], edges: [] });
    return pieces.get(place);
  };
  for (const node of nodes) at(Math.floor(node.column / PIECE)).nodes.push(node);
  for (const found of edges) {
    const first = Math.floor(Math.min(found.from.column, found.to.column) / PIECE);
    const last = Math.floor(Math.max(found.from.column, found.to.column) / PIECE);
    for (let place = first; place <= last; place++) at(place).edges.push(found);
  }
  return pieces;
}

const straight = (from, to) => `M${from.x.toFixed(1)} ${from.y.toFixed(1)}L${to.x.toFixed(1)} ${to.y.toFixed(1)}`;

/** Shows those pieces of a graph that cover the columns from `left` to `right`; `group` is where they are drawn. `dense`: the quickest way. */
export function piecewise(group, pieces, look) {
  const drawn = new Map();
  return function show(left, right) {
    const [first, last] = [Math.floor(left / PIECE) - 1, Math.floor(right / PIECE) + 1];
    for (const [place, piece] of drawn) {
      if (place < first || place > last) {
        piece.remove();
        drawn.delete(place);
      }
    }
    for (let place = first; place <= last; place++) {
      if (drawn.has(place) || !pieces.has(place)) continue;
      const piece = drawing(pieces.get(place), look);
      drawn.set(place, piece);
      group.append(piece);
    }
  };
}

function drawing({ nodes, edges }, { radius, labels, dense }) {
  const line = dense ? straight : edge;
  const path = (kind) => edges.filter((found) => found.kind === kind).map((found) => (kind === "edge-way" ? edge : line)(found.from, found.to)).join("");
  return s("g", {},
    ["edge", "edge-rejected", "edge-way"].map((kind) => {
      const d = path(kind);
      return d ? s("path", { class: kind, d }) : null;
    }),
    markPaths(nodes, radius, dense),
    labels ? nodes.filter((node) => node.score !== undefined).map((node) => s("text", { class: "middle", x: node.x, y: node.y + radius + 13 }, score(node.score, 3))) : null,
  );
}
