// The matrix of a run: what each candidate made of each sample, readable side by side, filtered and walked by keyboard.

import { complaint } from "../detail/reading.js";
import { TURNS } from "../detail/samples.js";
import { h, replace, say } from "../dom.js";
import { score, whole } from "../format.js";
import { marksBar } from "../marks/bar.js";
import { marksOfRun } from "../marks/of_run.js";
import { linkTo } from "../router.js";
import { ask } from "./dialogs.js";
import { candidateChoices } from "./candidate_choices.js";
import { answerDialog } from "./matrix_answer.js";
import { matrixGrid } from "./matrix_grid.js";
import { matrixPages } from "./matrix_pages.js";

const TYPED = 250; // milliseconds without a key before a search is made
const NEWS = 3000; // between looks at a run whose trials go on ending
const MOST = 20; // candidates, as the API allows
const TAGS = 2; // of a sample, that have room before its row
const KEPT = { fixed: "fixed", broken: "broken", failed: "with an answer that failed", disagree: "where candidates disagree" };
const FILTERS = ["search", "only", "of", "field", "slice", "samples", "candidates", "runs"];

export function mount(element, { run, api, marks, subscribe, navigate, announce, options: given }) {
  const steps = ["runs", run.id, "matrix"];
  let options = given;
  let filtered = null;
  let columns = [], total = 0;
  let opened = null;
  let closed = false;
  const keyOf = (column) => (column.optimization_id === run.id ? column.candidate_id : `${column.optimization_id}/${column.candidate_id}`);
  const columnOf = (key) => columns.find((one) => keyOf(one) === key);
  const named = (candidate) => {
    if (columnOf(candidate)?.optimization_id !== run.id && columnOf(candidate)) return `${columnOf(candidate).candidate_id} of ${columnOf(candidate).optimization_id}`;
    const number = run.trial(candidate)?.number;
    return candidate === run.detail.baseline_candidate_id ? "Baseline" : number ? `#${number} ${candidate}` : candidate;
  };
  const ofOthers = new Map();
  /** What people said of a run, of another one once its answers are opened. */
  function marksIn(id) {
    if (id === run.id) return marks;
    if (!ofOthers.has(id)) ofOthers.set(id, marksOfRun({ id }, api));
    ofOthers.get(id).read();
    return ofOthers.get(id);
  }
  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });

  const search = h("input", { id: "matrix-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "id, input, expected or answer", oninput: typed, onkeydown: searchKey });
  const only = h("select", { id: "matrix-only", onchange: () => go({ only: only.value }) },
    h("option", { value: "" }, "all samples"), Object.entries(KEPT).map(([name, words]) => h("option", { value: name }, words)));
  const of = h("select", { id: "matrix-of", onchange: () => go({ of: of.value }) });
  const slice = h("select", { id: "matrix-slice", onchange: () => go(slice.value ? JSON.parse(slice.value) : { field: null, slice: null }) }, h("option", { value: "" }, "all"));
  const samples = h("select", { id: "matrix-samples", onchange: () => go({ samples: samples.value, candidates: null, of: null }) },
    h("option", { value: "" }, "the search’s"), h("option", { value: "confirmation" }, "the confirmation’s"));
  const labelled = (control, text) => h("div", {}, h("label", { for: control.id }, text), control);
  const [ofPlace, slicePlace, samplesPlace] = [labelled(of, "By"), labelled(slice, "Slice"), labelled(samples, "Samples")];
  const told = h("p", { class: "told", role: "status" });
  const hint = h("p", { class: "soft small" });
  const nothing = h("div", { class: "card empty", hidden: true });
  const problem = h("div", { class: "matrix-problem" });

  const pages = matrixPages(
    (query, signal) => api.get(`${api.ofRun(run.id, "matrix")}?${parameters(query)}`, { signal }),
    read,
    (error) => error.status !== 401 && replace(problem, complaint(error, load)),
  );
  const grid = matrixGrid({
    label: "Samples by candidates", head: titleOf, lead: leadOf, cell: cellOf,
    row: (number) => pages.row(number),
    onsight: (first, last) => pages.need(first, last),
    onopen: (number, place) => go(addressOf(pages.row(number), columns[place])),
  });
  slicePlace.hidden = samplesPlace.hidden = true;
  replace(element,
    h("div", { class: "filters" }, h("div", { class: "wide" }, h("label", { for: search.id }, "Search"), search), labelled(only, "Show"), ofPlace, slicePlace, samplesPlace,
      h("button", { type: "button", onclick: choose }, "Candidates…"), h("button", { type: "button", onclick: chooseRuns }, "Runs…"), told),
    hint, problem, nothing, grid.element, legend());

  /** What a filter asks for, as the API takes it. */
  function parameters(query) {
    const value = (name) => options.get(name);
    const wanted = { ...query, search: value("search"), only: KEPT[value("only")] ? value("only") : null, by: value("only") ? value("of") : null, confirmation: value("samples") === "confirmation" || null };
    if (value("slice")) Object.assign(wanted, { slice: value("slice"), field: value("field") });
    const pairs = Object.entries(wanted).filter(([, one]) => one !== null && one !== undefined && one !== "");
    return new URLSearchParams([...pairs, ...asked().map((candidate) => ["candidate", candidate]), ...others().map((one) => ["other", one])]);
  }

  const asked = () => (options.get("candidates") ?? "").split(",").filter(Boolean).slice(0, MOST);

  const others = () => options.getAll("runs").flatMap((one) => one.split(",")).filter(Boolean).slice(0, MOST - 1);

  function read(answer) {
    if (closed) return;
    replace(problem);
    const changed = JSON.stringify(answer.columns) !== JSON.stringify(columns);
    columns = answer.columns;
    total = answer.total;
    if (changed) drawOf();
    say(hint, options.get("search") ? unsearched(answer) : "");
    say(told, total === answer.samples ? `${whole(total)} samples × ${columns.length} candidates` : `${whole(total)} of ${whole(answer.samples)} samples × ${columns.length} candidates`);
    nothing.hidden = total > 0;
    grid.element.hidden = total === 0;
    if (!total) replace(nothing, answer.samples && columns.length ? [h("strong", {}, "No sample is like that"), "Another word, or other filters, show more. ", h("button", { type: "button", onclick: clear }, "Show all samples")] : [h("strong", {}, "Nothing is measured here yet"), "A candidate appears as soon as its trial is over."]);
    grid.shape(columns, total);
    showOpened();
  }

  /** What a search could not look into, in words. */
  function unsearched(answer) {
    if (answer.searched === "ids") return "The contents of this store are encrypted: the search looks at the ids of samples alone.";
    const few = answer.columns_searched < columns.length;
    return [
      few ? `Of so many answers, the search looks into those of the first ${answer.columns_searched === 1 ? "candidate" : `${whole(answer.columns_searched)} candidates`}: Candidates… chooses others.` : "",
      run.detail.removed ? "Texts that a policy removed cannot be searched." : "",
    ].filter(Boolean).join(" ");
  }

  /** Of an opened answer: by the sample’s id, which means the same tomorrow. */
  const addressOf = (row, column) => ({ item: row.item_id, sample: null, answer: keyOf(column) });

  function clear() {
    search.value = "";
    go(Object.fromEntries(["search", "only", "of", "field", "slice"].map((name) => [name, null])));
  }

  function load() {
    pages.forget();
    replace(problem);
    pages.read(0);
  }

  function titleOf(column) {
    const isOwn = column.optimization_id === run.id;
    return [
      h("a", { href: linkTo(["runs", column.optimization_id, "candidates", column.candidate_id]) }, isOwn ? named(column.candidate_id) : column.is_baseline ? "Baseline" : column.candidate_id),
      h("div", { class: "small soft" }, h("span", { class: "number" }, score(column.objective_score)), column.is_best && !column.is_baseline ? " · best" : "", column.status === "completed" ? "" : ` · ${column.status}`,
        isOwn ? null : [" · of ", h("a", { href: linkTo(["runs", column.optimization_id]) }, column.optimization_id)]),
    ];
  }

  function leadOf(row) {
    return [
      h("div", { class: "matrix-id" }, h("span", { class: "matrix-name" }, row.item_id), row.tags.slice(0, TAGS).map((tag) => h("span", { class: "pill", title: tag }, tag)), row.tags.length > TAGS ? h("span", { class: "soft small", title: row.tags.slice(TAGS).join(", ") }, `+${row.tags.length - TAGS}`) : null),
      h("div", { class: "matrix-text soft" }, row.input === null ? "(long: open an answer to read it)" : row.input),
      row.expected ? h("div", { class: "matrix-text matrix-expected" }, h("span", { class: "soft" }, "→ "), row.expected) : null,
    ];
  }

  function cellOf(row, place) {
    const found = row.cells[place];
    const { word, mark, kind } = stateOf(row.cells[0], found, place);
    return { kind, shown: [
      h("div", { class: "matrix-state" }, h("span", { "aria-hidden": "true" }, mark), h("span", { class: "unseen" }, `${word}, `), h("span", { class: "number" }, score(found.score, 3)), found.failed ? h("span", { class: "small" }, " failed") : null),
      h("div", { class: "matrix-text" }, found.texts_removed ? "(removed by a policy)" : found.excerpt ?? (found.passes === null ? "" : "(long: open it to read it)")),
    ] };
  }

  function drawOf() {
    const chosen = options.get("of") ?? "";
    replace(of, h("option", { value: "" }, "any candidate"), columns.map((one) => h("option", { value: keyOf(one) }, named(keyOf(one)))));
    of.value = columnOf(chosen) ? chosen : "";
  }

  async function choose() {
    const own = columns.filter((one) => one.optimization_id === run.id).map((one) => one.candidate_id);
    const choices = candidateChoices(run, named, asked().length ? asked() : own);
    await ask({
      title: "Which candidates?",
      body: [`At most ${MOST}. Fixed and broken compare with the first. With none ticked there are the baseline, the best, and those with the best scores.`, choices.element],
      confirm: "Show them",
      act: async () => {
        const names = choices.chosen();
        if (names.length > MOST) throw new Error(`${names.length} are too many: tick at most ${MOST}.`);
        go({ candidates: names.join(","), of: null });
      },
    });
    grid.element.focus();
  }

  /** Runs over the same dataset, to be ticked; others and their candidates can be named. */
  async function chooseRuns() {
    const chosen = new Set(others());
    const use = await api.get(`/datasets/${run.detail.dataset_id}/use`).catch(() => ({ runs: [] }));
    if (closed) return;
    const offered = use.runs.filter((one) => one.optimization_id !== run.id).slice(0, 30);
    const list = h("fieldset", { class: "run-choices" }, h("legend", {}, "Runs over the same dataset, each with its best candidate"), offered.map((one) => {
      const box = h("input", { type: "checkbox", checked: chosen.has(one.optimization_id), onchange: () => chosen[box.checked ? "add" : "delete"](one.optimization_id) });
      return h("label", { class: "check" }, box, one.optimization_id, h("span", { class: "soft small" }, ` ${one.status}`));
    }), offered.length ? null : h("p", { class: "soft" }, "There is no other run over this dataset."));
    const known = new Set(offered.map((one) => one.optimization_id));
    await ask({
      title: "Which runs beside this one?",
      body: ["Samples are the same where their contents are. Fixed and broken compare with the first column.", list],
      fields: [{ name: "others", label: "Others, as RUN or RUN/CANDIDATE, separated by commas", value: [...chosen].filter((one) => !known.has(one)).join(", "), wide: true }],
      confirm: "Show them",
      act: async ({ others: written }) => {
        const names = [...[...chosen].filter((one) => known.has(one)), ...written.split(",").map((name) => name.trim()).filter(Boolean)];
        if (names.length >= MOST) throw new Error(`${names.length} are too many: name at most ${MOST - 1}.`);
        await api.get(`${api.ofRun(run.id, "matrix")}?${new URLSearchParams([["limit", "1"], ...names.map((one) => ["other", one])])}`);
        const few = names.length && !asked().length ? columns.filter((one) => one.optimization_id === run.id && (one.is_baseline || one.is_best)).map((one) => one.candidate_id).join(",") : null;
        go({ runs: names.join(","), of: null, ...(few ? { candidates: few } : {}) });
      },
    });
    grid.element.focus();
  }

  let typing = 0;
  function typed() {
    clearTimeout(typing);
    typing = setTimeout(() => go({ search: search.value.trim() }), TYPED);
  }

  function searchKey(event) {
    if (event.key !== "Enter" && event.key !== "Escape" && event.key !== "ArrowDown") return;
    event.preventDefault();
    if (event.key === "Escape") search.value = "";
    clearTimeout(typing);
    go({ search: search.value.trim() });
    grid.element.focus();
  }

  function slash(event) {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    search.focus();
    search.select();
  }

  /** Answers to a sample; one that only the confirmation drew is looked for there. */
  async function askFor(at, candidates, signal) {
    const confirms = options.get("samples") === "confirmation";
    const named = candidates.map((one) => [columnOf(one).optimization_id === run.id ? "candidate" : "other", one]);
    const query = new URLSearchParams([at.item === null ? ["position", at.position] : ["sample", at.item], ...named, ...(confirms ? [["confirmation", "true"]] : [])]);
    try {
      return await api.get(`${api.ofRun(run.id, "matrix", "answers")}?${query}`, { signal });
    } catch (error) {
      if (error.field === "sample" && !confirms && run.trials.some((trial) => trial.purpose === "confirmation")) {
        shown = "";
        go({ samples: "confirmation" });
      }
      throw error;
    }
  }

  /** What the address says is opened. */
  function showOpened() {
    const item = options.get("item");
    const position = item === null ? Number.parseInt(options.get("sample") ?? "", 10) : null;
    const candidate = options.get("answer");
    if (columns.length && !columnOf(candidate) && !asked().length && run.trial(candidate)) {
      const { baseline_candidate_id: baseline } = run.detail;
      return go({ candidates: [...new Set([run.trial(baseline) ? baseline : candidate, candidate])].join(",") });
    }
    if (Number.isNaN(position) || !columnOf(candidate)) return opened?.dialog.close();
    opened ??= answerDialog({
      name: named,
      link: (one) => linkTo(["runs", columnOf(one).optimization_id, "candidates", columnOf(one).candidate_id]),
      ask: askFor,
      sent: (one, item, replicate, signal) => api.get(api.ofRun(columnOf(one).optimization_id, "trials", columnOf(one).candidate_id, "sent"), { query: { sample: item, replicate, purpose: options.get("samples") === "confirmation" ? "confirmation" : null }, signal }),
      marksOf: (one, item, replicate) => marksBar(marksIn(columnOf(one).optimization_id), { candidate_id: columnOf(one).candidate_id, item_id: item, replicate }, `the answer of ${one} to ${item}`),
      step: (down, right) => {
        grid.go(grid.active.row + down, grid.active.column + right);
        const row = pages.row(grid.active.row);
        if (row) go(addressOf(row, columns[grid.active.column]));
      },
      onclose: () => {
        opened = null;
        shown = "";
        if (!closed && options.get("answer") !== null) go({ item: null, sample: null, answer: null });
        grid.element.focus();
      },
    });
    if (shown === `${item ?? position} ${candidate}`) return undefined;
    shown = `${item ?? position} ${candidate}`;
    const number = pages.numberOf((row) => (item === null ? row.position === position : row.item_id === item));
    if (number !== null) grid.go(number, columns.findIndex((one) => keyOf(one) === candidate));
    return opened.show({ position, item: number === null ? item : pages.row(number).item_id }, keyOf(columns[0]), candidate);
  }
  let shown = "";

  function apply() {
    const now = FILTERS.map((name) => options.get(name) ?? "").join("\n");
    for (const [control, name] of [[only, "only"], [samples, "samples"], [of, "of"]]) control.value = options.get(name) ?? "";
    if (document.activeElement !== search) search.value = options.get("search") ?? "";
    slice.value = options.get("slice") ? JSON.stringify({ field: options.get("field") ?? "tags", slice: options.get("slice") }) : "";
    ofPlace.hidden = !["fixed", "broken", "failed"].includes(options.get("only"));
    if (now === filtered) return showOpened();
    const first = filtered === null;
    filtered = now;
    if (!first) {
      grid.top();
      announce("Reading samples");
    }
    return load();
  }

  async function offerSlices() {
    const found = await api.get(api.ofRun(run.id, "slices")).catch(() => null); // without them the matrix is there all the same
    if (closed || !found?.fields.length) return;
    slice.append(...found.fields.map(({ field, slices }) => h("optgroup", { label: field }, slices.map((one) => h("option", { value: JSON.stringify({ field, slice: one.name }) }, `${one.name} (${whole(one.samples)})`)))));
    slicePlace.hidden = false;
    apply();
  }

  let measured = 0, looking = 0;
  function news() {
    samplesPlace.hidden = !run.trials.some((trial) => trial.purpose === "confirmation");
    const now = run.trials.filter((trial) => trial.status !== "running").length;
    if (measured && now !== measured) looking ||= setTimeout(() => ((looking = 0), load()), NEWS * (1 + Math.random())); // a thousand pages shall not ask at once
    measured = now;
  }

  document.addEventListener("keydown", slash);
  const unsubscribe = subscribe((what) => what.has("trials") && news());
  news();
  apply();
  offerSlices();
  return {
    go: (next) => ((options = next), apply()),
    unmount() {
      closed = true;
      clearTimeout(typing);
      clearTimeout(looking);
      document.removeEventListener("keydown", slash);
      unsubscribe();
      pages.forget();
      grid.close();
      opened?.dialog.close();
    },
  };
}

/** What became of a cell, beside the first of its row. */
function stateOf(reference, cell, place) {
  if (cell.passes === null) return { word: "no answer", mark: TURNS.missing.mark, kind: "none" };
  const [passes, fails] = [{ word: "passes", mark: TURNS.both.mark, kind: "pass" }, { word: "does not pass", mark: TURNS.neither.mark, kind: "fail" }];
  if (place === 0 || reference.passes === null || reference.passes === cell.passes) return cell.passes ? passes : fails;
  return cell.passes ? { word: "fixed", mark: TURNS.fixed.mark, kind: "fixed" } : { word: "broken", mark: TURNS.broken.mark, kind: "broken" };
}

function legend() {
  const marks = [["fixed", TURNS.fixed.mark, "fixed: the first column failed"], ["broken", TURNS.broken.mark, "broken: the first column passes"], ["pass", TURNS.both.mark, "passes"], ["fail", TURNS.neither.mark, "does not pass"]];
  return h("div", { class: "matrix-foot" },
    h("ul", { class: "legend" }, marks.map(([kind, mark, words]) => h("li", {}, h("span", { class: "matrix-mark", "data-kind": kind, "aria-hidden": "true" }, mark), words))),
    h("p", { class: "soft small" }, h("kbd", {}, "↑ ↓ ← →"), " walk, ", h("kbd", {}, "Enter"), " opens, ", h("kbd", {}, "Esc"), " closes, ", h("kbd", {}, "/"), " searches"));
}
