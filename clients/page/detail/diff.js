// What differs between two configurations, word by word: as one text, or the old one beside the new one.

import { h } from "../dom.js";
import { plain } from "../format.js";
import { imagesOf } from "./images.js";

const AROUND = 3; // unchanged lines that are shown around what changed
const WORTH_HIDING = 3;

/** Every factor that differs. `changes` as the API gives them; `layout` is `unified` or `split`. */
export function changesView(changes, { layout = "unified", from = "before", to = "after", heading = "h3" } = {}) {
  if (!changes.length) return h("p", { class: "soft" }, "Nothing differs: both configurations are the same.");
  return changes.map((change) => h("section", { class: "change" },
    h(heading, {}, change.factor),
    isLong(change.before) || isLong(change.after) ? textChange(change, layout, from, to) : valueChange(change),
    imagesOf(change.before, `${change.factor} of ${from}`),
    imagesOf(change.after, `${change.factor} of ${to}`),
  ));
}

/** Old and new value of something that is no text. */
function valueChange({ before, after }) {
  return h("p", { class: "value-change" },
    before === undefined || before === null ? null : h("del", {}, unseen("was "), plain(before)),
    h("span", { class: "soft", "aria-hidden": "true" }, " → "),
    after === undefined || after === null ? h("span", { class: "soft" }, "nothing") : h("ins", {}, unseen("is now "), plain(after)),
  );
}

function textChange({ factor, segments }, layout, from, to) {
  const rows = folded(rowsOf(segments));
  const body = layout === "split"
    ? [h("div", { class: "diff-row diff-head", "aria-hidden": "true" }, h("span", {}, from), h("span", {}, to)), ...rows.map(splitRow)]
    : rows.map(unifiedRow);
  return h("div", { class: `diff ${layout}`, role: "group", tabindex: "0", "aria-label": `${factor}: what changed from ${from} to ${to}` }, body);
}

/** Lines of both texts that stand beside each other: each a list of pieces, the unchanged ones alike on both sides. */
export function rowsOf(segments) {
  const rows = [];
  let row = emptyRow();
  const flush = () => {
    if (row.pieces.length) rows.push(row);
    row = emptyRow();
  };
  const add = (kind, text) => {
    if (!text) return;
    row.pieces.push({ kind, text });
    if (kind !== "same") row.changed = true;
  };
  segments.forEach(({ kind, text }, place) => {
    if (kind === "same") {
      if (endsLines(row)) flush();
      for (const line of text.match(/[^\n]*\n|[^\n]+/g) ?? []) {
        add("same", line);
        if (line.endsWith("\n")) flush();
      }
    } else if (place === segments.length - 1 && text.startsWith("\n") && !row.changed) {
      flush(); // the last line had no end of its own; what follows are lines of their own
      add(kind, text.slice(1));
    } else {
      add(kind, text);
    }
  });
  flush();
  return rows;
}

const emptyRow = () => ({ pieces: [], changed: false });

/** Whether both sides of a row have come to the end of a line, so that what follows is another row. */
function endsLines({ pieces, changed }) {
  const side = (leftOut) => pieces.filter(({ kind }) => kind !== leftOut).map(({ text }) => text).join("");
  return changed && [side("added"), side("removed")].every((text) => text === "" || text.endsWith("\n"));
}

/** Long stretches without a change become one row that can be opened. */
function folded(rows) {
  const near = new Set();
  rows.forEach((row, place) => {
    if (row.changed) for (let at = place - AROUND; at <= place + AROUND; at++) near.add(at);
  });
  const found = [];
  for (let place = 0; place < rows.length; ) {
    let end = place;
    while (end < rows.length && !near.has(end)) end++;
    if (end - place >= WORTH_HIDING) found.push({ hidden: rows.slice(place, end) });
    else found.push(...rows.slice(place, end));
    if (end < rows.length) found.push(rows[end]);
    place = end + 1;
  }
  return found;
}

function unifiedRow(row) {
  if (row.hidden) return hiddenRows(row.hidden, unifiedRow);
  return h("div", { class: row.changed ? "diff-line changed" : "diff-line" }, row.pieces.map(piece));
}

function splitRow(row) {
  if (row.hidden) return hiddenRows(row.hidden, splitRow);
  const side = (leftOut) => h("div", { class: "diff-line" }, row.pieces.filter(({ kind }) => kind !== leftOut).map(piece));
  return h("div", { class: row.changed ? "diff-row changed" : "diff-row" }, side("added"), side("removed"));
}

function hiddenRows(rows, draw) {
  const text = `${rows.length} unchanged lines`;
  const button = h("button", { type: "button", class: "quiet fold" }, `⋯ ${text}`);
  button.addEventListener("click", () => {
    const place = button.parentElement;
    button.replaceWith(...rows.map(draw));
    place?.focus();
  });
  return button;
}

function piece({ kind, text }) {
  if (kind === "removed") return h("del", {}, unseen("removed: "), text);
  if (kind === "added") return h("ins", {}, unseen("added: "), text);
  return text;
}

const unseen = (text) => h("span", { class: "unseen" }, text);
/** Numbers, flags and nothing are shown as they are; texts, and what is built of parts, by their lines. */
const isLong = (value) => typeof value === "string" || (typeof value === "object" && value !== null);
