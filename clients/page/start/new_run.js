// A run before it is one: its spec, from a template, an earlier run or as it is pasted; what is wrong with it; what it would cost.

import { h, replace, say } from "../dom.js";
import { words } from "../format.js";
import { linkTo } from "../router.js";
import { ask } from "../views/dialogs.js";
import { askForDataset, isId, withDataset } from "./dataset.js";
import { draftOf, keepDraft, keptDraft, noteStarted } from "./draft.js";
import { editor } from "./editor.js";

const CHECK_AFTER = 450; // milliseconds without a key
const LARGEST_SPEC = 1_000_000;
const AGAIN = "# Again, with what you change here";

export function mount(element, { api, navigate, announce, options }) {
  let closed = false, checked = null, checkedText = null, asking = null, timer = 0, mayStart = true, wanted = "";
  const area = editor({ label: "Spec", changed: () => (keepDraft(area.text()), soon()) });
  const state = h("p", { class: "check-state", role: "status" });
  const findings = h("ol", { class: "findings", "aria-label": "Findings" });
  const plan = h("div", { class: "plan" });
  const told = h("div", { class: "notices", role: "status" });
  const start = h("button", { type: "button", class: "primary", disabled: true, onclick: begin }, "Start…");
  const template = h("select", { id: "new-template", onchange: () => template.value && choose({ template: template.value }) }, h("option", { value: "" }, "choose"));
  const earlier = h("input", { id: "new-again", list: "new-runs", placeholder: "name or id", autocomplete: "off", oninput: findRuns, onchange: () => runs.has(earlier.value) && choose({ again: earlier.value }) });
  const known = h("datalist", { id: "new-runs" });
  const file = h("input", { id: "new-file", class: "unseen", type: "file", accept: ".yaml,.yml,.json", tabindex: "-1", "aria-hidden": "true", onchange: () => file.files[0] && open(file.files[0]) });
  const runs = new Set();
  document.title = "New run · Ratchet";
  replace(element,
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "New run")),
    h("div", { class: "filters" },
      h("div", {}, h("label", { for: "new-template" }, "Template"), template),
      h("div", { class: "wide" }, h("label", { for: "new-again" }, "Again, with changes: an earlier run"), earlier, known),
      h("div", { class: "buttons" }, file, h("button", { type: "button", onclick: () => file.click() }, "Open a file…"), h("button", { type: "button", onclick: () => upload() }, "Upload a dataset…"))),
    h("p", { class: "soft small drop-hint" }, "Files may be dropped anywhere on this page: a spec as YAML, samples as JSONL, JSON, CSV or TSV."),
    told,
    h("div", { class: "new-run" },
      h("section", { class: "card flush", "aria-label": "The spec" }, area.element),
      h("aside", { class: "side-column", "aria-label": "What the check says" },
        h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Check"), start), state, findings),
        plan)),
  );

  function tell(kind, ...children) {
    replace(told, children.length ? h("div", { class: "notice", "data-kind": kind }, children) : null);
  }

  const choose = (chosen) => navigate(["new"], chosen);

  function put(text, from) {
    area.set(text);
    keepDraft(text);
    checkedText = null;
    if (from) announce(`The spec is that of ${from}`);
    return check();
  }

  function soon() {
    start.disabled = true;
    say(state, "Checking…");
    delete state.dataset.kind;
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_AFTER);
  }

  async function check(endpoints = false) {
    clearTimeout(timer);
    asking?.abort();
    const text = area.text();
    if (!text.trim()) return nothing();
    if (!mayStart) return null;
    if (text.length > LARGEST_SPEC) {
      show({ ok: false, findings: [{ line: null, severity: "error", message: "The spec is longer than a million characters. Upload its samples as a dataset." }], plan: [] });
      return null;
    }
    const mine = (asking = new AbortController());
    start.disabled = true;
    start.setAttribute("aria-busy", "true");
    try {
      const found = await api.post("/spec/check", { text, endpoints }, { signal: mine.signal });
      if (closed || asking !== mine) return null;
      checkedText = text;
      show(found);
      return found;
    } catch (error) {
      if (error.name !== "AbortError" && !closed) {
        say(state, error.message);
        state.dataset.kind = "bad";
      }
      return null;
    } finally {
      if (asking === mine) start.removeAttribute("aria-busy");
    }
  }

  function nothing() {
    checked = null;
    say(state, "Paste a spec, choose a template or an earlier run, or open a file. Control and Space in the text offers what may be written.");
    delete state.dataset.kind;
    replace(findings);
    replace(plan);
    area.show([]);
    start.disabled = true;
    return null;
  }

  function show(found) {
    checked = found;
    const errors = found.findings.filter(({ severity }) => severity === "error").length, warnings = found.findings.length - errors;
    const noted = warnings ? `${warnings} thing${warnings === 1 ? "" : "s"} to know` : "";
    say(state, errors ? `${errors} thing${errors === 1 ? " is" : "s are"} wrong${noted ? `, ${noted}` : ""}` : `Ready to start${noted ? `, ${noted}` : ""}`);
    state.dataset.kind = errors ? "bad" : "good";
    replace(findings, found.findings.map(({ line, message, severity }) => h("li", { "data-kind": severity },
      line ? h("button", { type: "button", class: "link", onclick: () => area.goTo(line) }, `Line ${line}`) : null, line ? " " : null,
      severity === "warning" ? h("span", { class: "unseen" }, "To know: ") : null, h("span", {}, message))));
    area.show(found.findings);
    const cost = found.estimate?.costs_money;
    replace(plan, found.plan.length ? h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "What it will do")),
      found.question ? h("p", { class: "notice", "data-kind": "warn" }, found.question) : h("p", { class: "soft small" }, cost ? "It may cost little enough that nobody is asked." : "Nothing in it is known to cost money."),
      found.ran_before ? h("p", { class: "notice" }, "This spec ran before: ", h("a", { href: linkTo(["runs", found.run_id]) }, found.run_id), ` is ${words(found.ran_before)}.`) : null,
      h("dl", { class: "figures" }, found.plan.flatMap(({ name, text }) => [h("dt", {}, name), h("dd", {}, text)]))) : null);
    start.disabled = !found.ok;
  }

  /** Endpoints are asked now, too; then whoever starts it says yes to what it costs. */
  async function begin() {
    const found = checkedText === area.text() && checked?.asked ? checked : await check(true);
    if (!found?.ok || closed) return;
    found.asked = true;
    start.disabled = false;
    const again = found.ran_before !== null;
    const rows = found.plan.filter(({ name }) => ["Dataset", "Optimizer", "At most", "Cost"].includes(name));
    const started = await ask({
      title: again ? "Run it again?" : `Start ${found.spec.name}?`,
      body: [
        ...(again ? [h("p", {}, "This spec ran before, as ", h("a", { href: linkTo(["runs", found.run_id]) }, found.run_id), ". Another run is paid for again.")] : []),
        ...(found.question ? [h("p", { class: "notice", "data-kind": "warn" }, found.question)] : []),
        h("dl", { class: "figures" }, rows.flatMap(({ name, text }) => [h("dt", {}, name), h("dd", {}, text)])),
        ...(found.findings.length ? [`${found.findings.length === 1 ? "One thing" : `${found.findings.length} things`} to know: ${found.findings[0].message}`] : []),
      ],
      confirm: again ? "Pay and run again" : found.question ? "Start, and pay for it" : "Start",
      act: () => api.post(`/spec/start${again ? "?new=true" : ""}`, { text: checkedText }),
    });
    if (!started || closed) return;
    noteStarted(started.optimization_id);
    navigate(["runs", started.optimization_id]);
  }

  async function upload(dropped = null) {
    const stored = await askForDataset({ api, file: dropped });
    if (!stored || closed) return;
    const name = `${stored.name}@${stored.version}`;
    const left = stored.duplicates_dropped ? `, ${stored.duplicates_dropped} that were there twice left out` : "";
    useDataset(name, `Stored as ${name}: ${stored.count} samples${left}. `);
  }

  /** Have the spec name a dataset; one that is written as JSON its author changes. */
  function useDataset(name, before = "") {
    if (/^\s*\{/.test(area.text())) return tell("good", `${before}Write "dataset": {"${isId(name) ? "id" : "name"}": "${name}"} into the spec.`);
    put(withDataset(area.text(), name));
    return tell("good", `${before}The spec names ${before ? "it" : name} now.`);
  }

  async function open(chosen) {
    if (chosen.size > LARGEST_SPEC) return tell("bad", "This file is longer than a spec may be; samples are uploaded as a dataset.");
    navigate(["new"], {}, { replace: true });
    return put(await chosen.text(), chosen.name);
  }

  const dragged = (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault();

  function dropped(event) {
    const [found] = event.dataTransfer?.files ?? [];
    if (!found) return;
    event.preventDefault();
    if (document.querySelector("dialog[open]") || !mayStart) return;
    if (/\.ya?ml$/i.test(found.name)) open(found);
    else upload(found);
  }

  async function findRuns() {
    const { items } = await api.get("/optimizations", { query: { search: earlier.value.trim(), limit: 20 } }).catch(() => ({ items: [] }));
    items.forEach((run) => runs.add(run.optimization_id));
    replace(known, items.map((run) => h("option", { value: run.optimization_id }, run.name)));
  }

  let templates = [];
  async function load(given) {
    const again = given.get("again"), named = given.get("template"), dataset = given.get("dataset");
    const key = again ? `again ${again}` : named ? `template ${named}` : dataset ? `dataset ${dataset}` : "";
    if (key === wanted && key) return;
    wanted = key;
    tell();
    template.value = named ?? "";
    earlier.value = again ?? "";
    try {
      if (again) {
        await putAgain(again, () => wanted === key && !closed);
      } else if (named) {
        const found = templates.find(({ name }) => name === named);
        if (!found) return tell("bad", `There is no template ${named}.`);
        if (found.needs) tell("warn", `It needs ${found.needs}.`);
        put(found.text, `the template ${named}`);
      } else if (dataset) {
        area.set(area.text() || keptDraft() || templates[0]?.text || "");
        useDataset(dataset);
      } else if (!area.text()) {
        put(keptDraft());
      }
    } catch (error) {
      if (!closed && error.status !== 401) tell("bad", error.message);
    }
  }

  /** An earlier run's spec as its author wrote it, where that leads to the same samples; else as it was run. */
  async function putAgain(id, isWanted) {
    const draft = draftOf(id);
    if (draft !== null) return put(draft, id);
    const { text, written, dataset_id: samples } = await api.get(api.ofRun(id, "spec"));
    if (!isWanted()) return null;
    let found = await put(headed(written ?? text, id), id);
    if (written !== null && found && isWanted() && namesFilesElsewhere(found, samples !== null)) {
      found = await put(headed(text, id), id);
      tell("", "What its author wrote names files that this server may not read. So this is the spec as it was run, with the same samples and without comments; the other is under Spec, on the run’s page.");
    }
    if (samples && found?.dataset_id && found.dataset_id !== samples && isWanted()) tell("warn", `It leads to other samples now than ${id} had. What it names as its dataset has changed since; for the same samples, write id: ${samples} below dataset, without path or name.`);
    return found;
  }

  async function prepare() {
    nothing();
    try {
      const [caller, found] = await Promise.all([api.get("/session"), api.get("/spec/templates")]);
      if (closed) return;
      templates = found;
      template.append(...templates.map(({ name, improves }) => h("option", { value: name }, `${name}: ${improves}`)));
      mayStart = caller.role !== "read";
      if (!mayStart) replace(state, `Your token, ${caller.name}, may read. Checking and starting need one with the role run: ask an admin.`);
    } catch (error) {
      if (!closed && error.status !== 401) tell("bad", error.message);
    }
    if (!closed) await load(options);
    api.get("/spec/schema").then((schema) => area.learn(schema)).catch(() => {}); // without it nothing is offered
  }

  document.addEventListener("dragover", dragged);
  document.addEventListener("drop", dropped);
  prepare();
  findRuns();
  return {
    go: (_, given) => load(given),
    unmount() {
      closed = true;
      clearTimeout(timer);
      asking?.abort();
      document.removeEventListener("dragover", dragged);
      document.removeEventListener("drop", dropped);
      document.title = "Ratchet";
    },
  };
}

/** A spec's text below a line that says whose it is; JSON has no room for one. */
function headed(text, id) {
  return /^\s*\{/.test(text) ? text : `${AGAIN}: the spec of ${id}\n\n${text.replace(new RegExp(`^${AGAIN}.*\\n+`), "")}`;
}

/** Whether a spec names files that are not here. What only a file can make wrong is known of a run that began. */
function namesFilesElsewhere({ unseen, findings }, hasBegun) {
  const wrong = hasBegun ? findings.filter(({ severity }) => severity === "error").map(({ field }) => field ?? "") : [];
  return [...(unseen ?? []), ...wrong].some((field) => /^(dataset\.paths?|configuration|prompt\.file)\b/.test(field));
}
