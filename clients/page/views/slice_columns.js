// The trials table by slice: a column for each, and the scores of the trials that are looked at.

import { get, ofRun } from "../api.js";
import { h } from "../dom.js";
import { fixed, whole } from "../format.js";

const AT_ONCE = 100; // candidates that one request names
const APART = 60; // milliseconds that the table has to rest before scores are asked for
const AGAIN_AFTER = 3000;
const WIDTH = 104;

/**
 * `changed()` is called when there is more to show. Returns `{open(), fields, choose(field), columns(), need(trials), needAll(), told, close()}`:
 * `open()` learns by which `fields` there are slices, `need` asks for the scores of trials in sight, `needAll` for those of all.
 */
export function sliceColumns(run, changed) {
  const closing = new AbortController();
  let offered = { fields: [], measure: "objective", all_at_once: false };
  let chosen = null;
  let known = new Map();
  let wanted = [];
  let timer = 0;
  let asking = false;
  let problem = null;

  const isKnown = (trial) => known.get(keyOf(trial))?.of === trial.finished_at;
  const isMissing = (trial) => trial.finished_at && !isKnown(trial);
  const scoreOf = (trial, place) => known.get(keyOf(trial))?.scores[place] ?? null;

  /** Until there is an answer, or `close()`. */
  async function open() {
    try {
      offered = await get(ofRun(run.id, "slices"), { signal: closing.signal });
    } catch {
      if (closing.signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER));
      await open();
    }
  }

  function choose(field) {
    chosen = offered.fields.find((one) => one.field === field) ?? null;
    known = new Map();
    wanted = [];
    problem = null;
  }

  function need(trials) {
    if (!chosen) return;
    const { baseline_candidate_id: baseline } = run.detail;
    wanted = [...[run.trial(baseline), run.trial(baseline, "confirmation")].filter(Boolean), ...trials].filter(isMissing);
    soon(problem ? AGAIN_AFTER : APART);
  }

  function needAll() {
    if (chosen && offered.all_at_once) need(run.trials);
  }

  function soon(wait) {
    clearTimeout(timer);
    if (wanted.length && !asking) timer = setTimeout(ask, wait);
  }

  async function ask() {
    const trials = wanted.filter(isMissing);
    const candidates = [...new Set(trials.map((trial) => trial.candidate_id))];
    const all = candidates.length > AT_ONCE && offered.all_at_once;
    const asked = new Set(candidates.slice(0, AT_ONCE));
    const field = chosen?.field;
    if (!trials.length || !field) return;
    asking = true;
    try {
      const query = new URLSearchParams([["field", field], ...(all ? [] : [...asked].map((one) => ["candidate", one]))]);
      const answered = (all ? run.trials : run.trials.filter((trial) => asked.has(trial.candidate_id))).filter(isMissing).map((trial) => [keyOf(trial), trial.finished_at]);
      const found = await get(`${ofRun(run.id, "slices", "scores")}?${query}`, { signal: closing.signal });
      if (field === chosen?.field) take(found.trials, answered);
      problem = null;
    } catch (error) {
      if (closing.signal.aborted) return;
      problem = error.message;
    }
    asking = false;
    wanted = wanted.filter(isMissing);
    soon(problem ? AGAIN_AFTER : 0);
    changed();
  }

  function take(trials, answered) {
    const scores = new Map(trials.map((trial) => [keyOf(trial), trial.scores]));
    for (const [key, of] of answered) known.set(key, { of, scores: scores.get(key) ?? [] });
  }

  function column(part, place) {
    return {
      key: `slice-${place}`,
      title: shortened(part.name, chosen.field),
      hint: `${part.name}: ${whole(part.samples)} ${part.samples === 1 ? "sample" : "samples"}`,
      width: WIDTH,
      number: true,
      always: true,
      sort: offered.all_at_once ? (trial) => scoreOf(trial, place) : null,
      cell: (trial) => cell(trial, place),
    };
  }

  function cell(trial, place) {
    if (!isKnown(trial)) return trial.finished_at ? h("span", { class: "soft" }, "…") : "";
    const score = scoreOf(trial, place);
    const before = referenceOf(trial, place);
    if (score === null || before === null || score === before) return fixed(score);
    const better = score > before === run.maximizes;
    return h("span", { class: better ? "good" : "bad", title: `baseline ${fixed(before)}` }, fixed(score),
      h("span", { "aria-hidden": "true" }, score > before ? " ↑" : " ↓"), h("span", { class: "unseen" }, better ? ", better than the baseline" : ", worse than the baseline"));
  }

  /** What the baseline scored on the same samples. */
  function referenceOf(trial, place) {
    if (trial.purpose !== "candidate" && trial.purpose !== "confirmation") return null;
    const baseline = run.trial(run.detail.baseline_candidate_id, trial.purpose === "confirmation" ? "confirmation" : null);
    return baseline && baseline !== trial ? scoreOf(baseline, place) : null;
  }

  return {
    open,
    choose,
    need,
    needAll,
    columns: () => chosen?.slices.map(column) ?? [],
    get fields() {
      return offered.fields.map((one) => one.field);
    },
    /** What is told of the columns, beside what they say. */
    get told() {
      if (!chosen) return "";
      if (problem) return `The slices cannot be read: ${problem}`;
      const scores = offered.measure === "objective" ? "" : `slices show the ${offered.measure}`;
      const more = chosen.left_out ? `${whole(chosen.left_out)} smaller slices are not shown` : "";
      return [scores, more].filter(Boolean).join("; ");
    },
    close() {
      closing.abort();
      clearTimeout(timer);
    },
  };
}

const keyOf = (trial) => `${trial.candidate_id} ${trial.purpose} ${trial.part ?? ""}`;
const shortened = (name, field) => (name.startsWith(`${field}=`) ? name.slice(field.length + 1) : name);
