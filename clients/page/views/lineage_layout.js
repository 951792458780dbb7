// Where each candidate stands: a column a round, the line of the best straight through, the others beside it.

const FEW = 3;

/**
 * Give every node its `x` and `y` (in units) from its round and its parents. Nodes are `{id, round, parents, straight}`;
 * `straight` ones stay level with their parents. Returns `{columns, width, height}`, columns from left to right.
 */
export function laidOut(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const byRound = new Map();
  for (const node of nodes) {
    if (!byRound.has(node.round)) byRound.set(node.round, []);
    byRound.get(node.round).push(node);
  }
  const columns = [...byRound.entries()].sort(([one], [other]) => one - other).map(([, column]) => column);
  columns.forEach((column, place) => {
    for (const node of column) {
      node.x = place;
      node.y = null;
    }
    for (const node of column) node.wish = levelOf(node, byId) + (node.straight || column.length > FEW ? 0 : 1);
    column.sort((one, other) => one.wish - other.wish);
    stack(column);
  });
  let top = Infinity, bottom = -Infinity;
  for (const node of nodes) {
    if (node.y < top) top = node.y;
    if (node.y > bottom) bottom = node.y;
  }
  if (!nodes.length) [top, bottom] = [0, 0];
  for (const node of nodes) node.y -= top;
  return { columns, width: columns.length, height: bottom - top + 1 };
}

function levelOf(node, byId) {
  const levels = node.parents.map((id) => byId.get(id)?.y).filter((y) => y !== null && y !== undefined);
  return levels.length ? levels.reduce((sum, y) => sum + y, 0) / levels.length : 0;
}

/** At least one unit apart; a column of many is centred on what its nodes wish for. */
function stack(column) {
  if (column.length > FEW) {
    const middle = column.reduce((sum, node) => sum + node.wish, 0) / column.length;
    column.forEach((node, place) => (node.y = middle + place - (column.length - 1) / 2));
    return;
  }
  let least = -Infinity;
  for (const node of column) {
    node.y = Math.max(node.wish, least);
    least = node.y + 1;
  }
}

/** All ancestors of a node, itself included. */
export function wayTo(id, byId) {
  const found = new Set();
  const open = [id];
  while (open.length) {
    const next = open.pop();
    if (found.has(next) || !byId.has(next)) continue;
    found.add(next);
    open.push(...byId.get(next).parents);
  }
  return found;
}
