// Every trial of a run: sorted, filtered, and fluid however many there are.

import { h, replace, say } from "../dom.js";
import { cost, day, duration, fixed, milliseconds, whole, words } from "../format.js";
import { linkTo } from "../router.js";
import { glyph, kindOf, KINDS, told } from "./marks.js";
import { sliceColumns } from "./slice_columns.js";
import { compared, virtualTable } from "./virtual_table.js";

const PURPOSES = { "": "of the search", confirmation: "confirmations", exploration: "of some samples", noise: "noise", all: "all" };

export function mount(element, { run, subscribe, navigate, options }) {
  const search = h("input", { id: "trial-search", type: "search", placeholder: "id, reason, rationale…", value: options.get("search") ?? "", oninput: () => update() });
  const kind = select("trial-kind", { "": "all", ...Object.fromEntries(KINDS.filter((name) => name !== "rejected").map((name) => [name, told(name)])) }, options.get("kind"));
  const verdict = select("trial-verdict", { "": "any", better: "better", not_worse: "not worse", inconclusive: "inconclusive", worse: "worse" }, options.get("verdict"));
  const purpose = select("trial-purpose", PURPOSES, options.get("purpose"));
  const told_ = h("p", { class: "told", role: "status" });
  const [wanted, way] = (options.get("sort") ?? "").split(".");
  let order = { key: wanted || null, descending: way === "down" };
  let sliced = options.get("slices") ?? "";
  const slices = sliceColumns(run, () => update());
  const picker = h("select", { id: "trial-slices", onchange: () => showSlices(picker.value) });
  const pickerPlace = labelled("Scores by slice", picker);
  pickerPlace.hidden = true;
  const columns = () => columnsOf(run, slices.columns());
  const table = virtualTable({
    label: "Trials",
    columns: columns(),
    onsort(column, descending) {
      order = { key: column.key, descending };
      update();
    },
    onsight: (trials) => slices.need(trials),
    onopen: (trial) => navigate(["runs", run.id, "candidates", trial.candidate_id], purposeOption(trial)),
    rowAttributes: (trial) => ({ "data-best": trial.candidate_id === run.winner ? "" : null }),
  });
  table.order(order.key, order.descending);
  replace(element,
    h("h2", { class: "unseen" }, "Trials"),
    h("div", { class: "filters" },
      h("div", { class: "wide" }, h("label", { for: "trial-search" }, "Search"), search),
      labelled("What became of it", kind), labelled("Verdict", verdict), labelled("Trials", purpose), pickerPlace,
      told_,
    ),
    table.element,
  );

  function select(id, choices, value) {
    const made = h("select", { id, onchange: () => update() }, Object.entries(choices).map(([key, text]) => h("option", { value: key }, text)));
    made.value = value ?? "";
    return made;
  }

  function update() {
    const text = search.value.trim().toLowerCase();
    const all = run.trials;
    const shown = all.filter((trial) => isWanted(trial, text));
    const column = columns().find((one) => one.key === order.key);
    if (column?.sort) shown.sort((one, other) => compared(column.sort(one), column.sort(other), order.descending));
    table.show(shown);
    if (column?.sort && column.always) slices.needAll();
    const counted = shown.length === all.length ? `${whole(all.length)} trials` : `${whole(shown.length)} of ${whole(all.length)} trials`;
    say(told_, [counted, slices.told].filter(Boolean).join("; "));
    const kept = { search: search.value.trim(), kind: kind.value, verdict: verdict.value, purpose: purpose.value, slices: sliced, sort: order.key ? `${order.key}${order.descending ? ".down" : ""}` : "" };
    remember(kept);
  }

  function showSlices(field) {
    if (field !== sliced && order.key?.startsWith("slice-")) order = { key: null, descending: false };
    sliced = field;
    slices.choose(field);
    table.order(order.key, order.descending);
    table.columns(columns());
    update();
  }

  async function offerSlices() {
    await slices.open();
    if (!slices.fields.length) return;
    if (!slices.fields.includes(sliced)) sliced = "";
    replace(picker, h("option", { value: "" }, "not shown"), slices.fields.map((field) => h("option", { value: field }, field === "tags" ? "by tag" : `by ${field}`)));
    picker.value = sliced;
    pickerPlace.hidden = false;
    if (sliced) showSlices(sliced);
  }

  function remember(kept) {
    clearTimeout(remember.timer);
    remember.timer = setTimeout(() => history.replaceState(null, "", linkTo(["runs", run.id, "trials"], kept)), 300);
  }

  function isWanted(trial, text) {
    const searching = trial.number !== null;
    if (purpose.value === "" ? !searching : purpose.value !== "all" && trial.purpose !== purpose.value) return false;
    if (kind.value && kindOf(trial) !== kind.value) return false;
    if (verdict.value && trial.verdict !== verdict.value) return false;
    if (!text) return true;
    return [trial.candidate_id, trial.rationale, trial.why, trial.error, trial.origin, trial.stopped_early, trial.mask_id].some((part) => part?.toLowerCase().includes(text));
  }

  update();
  offerSlices();
  const unsubscribe = subscribe((changed) => {
    if (changed.has("trials")) update();
  });
  return () => {
    clearTimeout(remember.timer);
    unsubscribe();
    slices.close();
    table.close();
  };
}

const labelled = (text, control) => h("div", {}, h("label", { for: control.id }, text), control);
const purposeOption = (trial) => (trial.number === null ? { purpose: trial.purpose } : {});

function columnsOf(run, slices) {
  const base = () => run.detail.baseline_score;
  const gain = (trial) => (trial.objective_score === undefined || base() === null || trial.purpose !== "candidate" ? null : trial.objective_score - base());
  const better = (value) => (value === null || value === 0 ? "soft" : value > 0 === run.maximizes ? "good" : "bad");
  return [
    { key: "mark", title: "What became of it", quiet: true, width: 36, cell: (trial) => h("span", {}, glyph(kindOf(trial)), h("span", { class: "unseen" }, told(kindOf(trial)))), until: 640 },
    { key: "number", title: "#", width: 58, number: true, sort: (trial) => trial.number, cell: (trial) => (trial.number === null ? "" : whole(trial.number)), from: 420 },
    { key: "candidate", title: "Candidate", width: 150, pinned: true, sort: (trial) => trial.candidate_id, cell: (trial) => h("a", { class: "mono", href: linkTo(["runs", run.id, "candidates", trial.candidate_id], purposeOption(trial)) }, trial.candidate_id) },
    { key: "round", title: "Round", width: 76, number: true, sort: (trial) => trial.round, cell: (trial) => String(trial.round), from: 760 },
    { key: "score", title: "Score", width: 92, number: true, sort: (trial) => trial.objective_score, cell: (trial) => fixed(trial.objective_score) },
    { key: "gain", title: "To the baseline", width: 132, number: true, sort: gain, cell: (trial) => h("span", { class: better(gain(trial)) }, `${gain(trial) > 0 ? "+" : ""}${fixed(gain(trial))}`), from: 560 },
    ...slices,
    { key: "kind", title: "What became of it", width: 190, sort: (trial) => told(kindOf(trial)), cell: (trial) => h("span", { class: "with-glyph" }, glyph(kindOf(trial)), trial.part ? `${whole(trial.samples)} of ${whole(trial.split_samples)} samples` : trial.number === null ? trial.purpose : told(kindOf(trial))), from: 640 },
    { key: "verdict", title: "Verdict in its round", width: 150, sort: (trial) => trial.verdict, cell: (trial) => words(trial.verdict ?? ""), from: 880 },
    { key: "passed", title: "Passed", width: 96, number: true, sort: (trial) => (trial.total ? trial.passed / trial.total : null), cell: (trial) => (trial.total ? `${whole(trial.passed)}/${whole(trial.total)}` : ""), from: 980 },
    { key: "cost", title: "Cost", width: 88, number: true, sort: (trial) => trial.cost, cell: (trial) => cost(trial.cost), from: 820 },
    { key: "latency", title: "Latency", width: 96, number: true, sort: (trial) => trial.latency_ms, cell: (trial) => milliseconds(trial.latency_ms), from: 1300 },
    { key: "took", title: "Took", width: 84, number: true, sort: took, cell: (trial) => (took(trial) === null ? "" : duration(took(trial))), from: 1400 },
    { key: "why", title: "Why", cell: (trial) => h("span", { class: "soft", title: trial.why ?? trial.error ?? "" }, trial.error ?? trial.why ?? trial.rationale ?? ""), from: 1060 },
    { key: "started", title: "Started", width: 130, sort: (trial) => trial.started_at, cell: (trial) => day(trial.started_at), from: 1480 },
  ];
}

const took = (trial) => (trial.finished_at ? (new Date(trial.finished_at) - new Date(trial.started_at)) / 1000 : null);
