// Two trials sample by sample: how many were fixed and broken, and what both answered.

import { h, replace, say } from "../dom.js";
import { score, whole } from "../format.js";
import { isLive } from "../source.js";
import { answersOf } from "./answers.js";
import { reading } from "./reading.js";
import { turnsStrip } from "./strip.js";

const PAGE = 20;

/** Every turn a sample can take: a word, a mark that needs no colour, and what it means. */
export const TURNS = {
  fixed: { word: "Fixed", mark: "▲", kind: "good", meaning: "failed before, passes now" },
  broken: { word: "Broken", mark: "▼", kind: "bad", meaning: "passed before, fails now" },
  both: { word: "Both pass", mark: "●", kind: "soft", meaning: "passes in both" },
  neither: { word: "Neither", mark: "○", kind: "soft", meaning: "fails in both" },
  missing: { word: "No answer", mark: "·", kind: "warn", meaning: "not answered in both" },
};

/**
 * The matrix and the samples. `ask(query, signal)` reads a comparison; `names` are both sides in words; `options` are those of
 * the address (`only`, `page`, `sample`), `go(changes)` changes them; `verdict` says whether what was judged is told, too;
 * `marksOf(side, answer, item)` what people said of an answer.
 */
export function samplesView(element, { ask, names, options, go, announce, marksOf = null, sent = null, linkOf = null, verdict = true }) {
  const matrix = h("div", { class: "matrix-place" });
  const list = h("div", { class: "samples" });
  const only = TURNS[options.get("only")] ? options.get("only") : null;
  const page = Math.max(Number.parseInt(options.get("page") ?? "1", 10) || 1, 1);
  replace(element, matrix, list);
  const query = { only, offset: (page - 1) * PAGE, limit: PAGE };
  return reading(list, (signal) => ask(query, signal), (found) => {
    const pages = Math.max(Math.ceil(found.total / PAGE), 1);
    if (page > pages) return go({ page: pages === 1 ? null : pages });
    replace(matrix,
      matrixTable(found.counts, only, names, (turn) => go({ only: turn === only ? null : turn, page: null })),
      verdict ? verdictOf(found.judged) : null,
      turnsStrip(found.turns, (place) => go({ only: null, page: pageOf(place), sample: place })),
    );
    const wanted = options.get("sample");
    const open = wanted !== null && !only ? Number(wanted) - query.offset : -1;
    const places = only ? found.turns.flatMap((turn, place) => (turn === only ? [place] : [])) : null;
    const link = (row) => linkOf?.(places ? places[query.offset + row] : query.offset + row);
    const items = found.items.map((sample, place) => sampleRow(sample, names, place === open, marksOf, sent, link(place)));
    replace(list,
      h("h3", {}, only ? `${TURNS[only].word}: ${whole(found.total)} of ${whole(found.turns.length)} samples` : `All ${whole(found.total)} samples`),
      only ? h("p", {}, h("button", { type: "button", onclick: () => go({ only: null, page: null }) }, "Show all samples")) : null,
      items.length ? h("ol", { class: "sample-list", start: query.offset + 1 }, items) : h("p", { class: "soft" }, isLive || !found.total ? "No sample took this turn." : "What was asked and answered is not in this report; with --verbosity full it is."),
      pages > 1 ? pager(page, pages, (to) => go({ page: to === 1 ? null : to, sample: null })) : null,
    );
    items[open]?.scrollIntoView({ block: "nearest" });
    if (page > 1 || only) announce(`${whole(found.total)} samples, page ${page} of ${pages}`);
  });
}

const pageOf = (place) => (place < PAGE ? null : Math.floor(place / PAGE) + 1);

/** Who passed what, two by two; each cell shows its samples. */
function matrixTable(counts, only, names, choose) {
  const cell = (turn) => {
    const { word, mark, kind, meaning } = TURNS[turn];
    return h("td", {}, h("button", {
      type: "button", class: `turn ${kind}`, "aria-pressed": String(turn === only), onclick: () => choose(turn),
      "aria-label": `${word}: ${counts[turn]} samples, ${meaning}`,
    }, h("span", { class: "count" }, whole(counts[turn])), h("span", {}, h("span", { "aria-hidden": "true" }, `${mark} `), word)));
  };
  return h("table", { class: "matrix" },
    h("caption", { class: "unseen" }, `Samples by what ${names.before} and ${names.after} made of them`),
    h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, names.after, " passes"), h("th", { scope: "col" }, names.after, " fails"))),
    h("tbody", {},
      h("tr", {}, h("th", { scope: "row" }, names.before, " fails"), cell("fixed"), cell("neither")),
      h("tr", {}, h("th", { scope: "row" }, names.before, " passes"), cell("both"), cell("broken")),
      counts.missing ? h("tr", {}, h("th", { scope: "row" }, "No answer in one or both"), cell("missing"), h("td", {})) : null,
    ),
  );
}

function verdictOf(judged) {
  if (!judged) return h("p", { class: "soft" }, "No sample was answered in both, so nothing can be said.");
  return h("p", { class: "soft judged" }, judged.explanation);
}

function sampleRow(sample, names, isOpen, marksOf, sent, link) {
  const { word, mark, kind } = TURNS[sample.turn];
  const place = h("div", { class: "sample-body", hidden: true });
  const name = `${sample.item_id}: ${word.toLowerCase()}`;
  const button = h("button", { type: "button", class: "sample-head", "aria-expanded": "false" },
    h("span", { class: `turn-mark ${kind}` }, h("span", { "aria-hidden": "true" }, mark), h("span", { class: "unseen" }, `${word}, `)),
    h("span", { class: "sample-id" }, sample.item_id),
    h("span", { class: "excerpt soft" }, excerpt(sample.input)),
    h("span", { class: "number scores" }, `${score(sample.baseline_score)} → ${score(sample.candidate_score)}`),
  );
  const toggle = () => {
    const opening = place.hidden;
    if (opening && !place.hasChildNodes()) replace(place, answersOf(sample, names, marksOf, sent), link ? h("p", { class: "small" }, h("a", { href: link }, "Link to this sample")) : null);
    place.hidden = !opening;
    button.setAttribute("aria-expanded", String(opening));
  };
  button.addEventListener("click", toggle);
  if (isOpen) toggle();
  return h("li", { class: "sample", "data-turn": sample.turn, "data-name": name }, button, place);
}

/** The beginning of an input: its only field, or all of it as JSON. */
export function excerpt(input) {
  const fields = input !== null && typeof input === "object" ? Object.values(input) : [input];
  const text = fields.length === 1 && typeof fields[0] !== "object" ? String(fields[0]) : JSON.stringify(input);
  return text.length > 140 ? `${text.slice(0, 139)}…` : text;
}

function pager(page, pages, to) {
  const told = h("span", { class: "soft" });
  say(told, `Page ${whole(page)} of ${whole(pages)}`);
  return h("nav", { class: "pager", "aria-label": "Pages of samples" },
    h("button", { type: "button", disabled: page === 1, onclick: () => to(page - 1) }, "Previous"),
    told,
    h("button", { type: "button", disabled: page === pages, onclick: () => to(page + 1) }, "Next"),
  );
}
