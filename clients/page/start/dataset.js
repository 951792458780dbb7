// A dataset that is sent: a file is read here, looked at, its columns said what they are for, and then stored as a version.

import { h, replace, say } from "../dom.js";
import { plain, whole } from "../format.js";
import { fieldName, guessedRoles, isWhole, samplesOf, tableOf } from "./tables.js";

const LARGEST = 12 * 1024 * 1024; // bytes of a file; the server reads sixteen of JSON
const SHOWN = 5;
const MOST_COLUMNS = 60;
const ROLES = { none: "leave out", input: "input", expected: "expected", id: "id", tags: "tags", weight: "weight", split: "split" };

/** Ask for a file, or take the one that was dropped; resolves to what was stored, or null. With `called` it is a version of that name. */
export function askForDataset({ api, file = null, called = "" }) {
  let table = null, roles = {}, names = {};
  const problem = h("p", { class: "problem", role: "alert" });
  const chooser = h("input", { id: "dataset-file", type: "file", accept: ".jsonl,.ndjson,.json,.csv,.tsv,.txt", onchange: () => chooser.files[0] && read(chooser.files[0]) });
  const zone = h("div", { class: "drop-zone" },
    h("label", { for: "dataset-file" }, "A file of samples: JSONL, JSON, CSV or TSV"), chooser, h("p", { class: "soft small" }, "Choose it, or drop it here."));
  const name = h("input", { id: "dataset-name", value: called, autocomplete: "off", "aria-describedby": "dataset-name-hint" });
  const mapping = h("div", { class: "mapping" });
  const notes = h("div", { class: "dataset-notes" });
  const preview = h("div", { class: "preview" });
  const store = h("button", { type: "submit", class: "primary", disabled: true }, "Store");
  const rest = h("div", { hidden: true, class: "dataset-rest" },
    h("div", {}, h("label", { for: "dataset-name" }, "Name"), name, h("p", { class: "soft small", id: "dataset-name-hint" }, "A name that is there gets a new version; the old ones stay.")),
    h("fieldset", {}, h("legend", {}, "What each column is for"), mapping),
    notes, preview);
  const dialog = h("dialog", { class: "wide-dialog", "aria-labelledby": "dataset-title", ondragover: (event) => event.preventDefault(), ondrop: (event) => (event.preventDefault(), event.dataTransfer.files[0] && read(event.dataTransfer.files[0])) },
    h("form", { novalidate: true, onsubmit: submit }, h("h2", { id: "dataset-title" }, called ? `A new version of ${called}` : "Upload a dataset"), zone, rest, problem,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Not now"), store)));
  document.body.append(dialog);
  dialog.showModal();
  let stored = null;
  if (file) read(file);

  async function read(chosen) {
    replace(problem);
    try {
      if (chosen.size > LARGEST) throw new Error(`The file has ${whole(chosen.size / 1024 / 1024)} MB; up to ${LARGEST / 1024 / 1024} are sent from here. A command takes more: ratchet datasets add FILE`);
      table = tableOf(chosen.name, await chosen.text());
      roles = guessedRoles(table.columns);
      names = Object.fromEntries(table.columns.map((column) => [column, fieldName(column)]));
      replace(notes, table.notes.map((note) => h("p", { class: "notice", "data-kind": "warn" }, note)));
      name.value ||= chosen.name.replace(/\.[^.]+$/, "").replace(/[^\w.-]+/g, "-");
      rest.hidden = false;
      drawMapping();
    } catch (error) {
      table = null;
      rest.hidden = store.disabled = true;
      replace(problem, error.message);
    }
  }

  function drawMapping() {
    const fields = [];
    const shown = () => fields.forEach(({ column, field }) => (field.hidden = !isField(column)));
    replace(mapping, table.columns.slice(0, MOST_COLUMNS).map((column, number) => {
      const field = h("div", {}, h("label", { for: `column-${number}-name`, class: "small" }, h("span", { class: "unseen" }, `${column}: `), "called"),
        h("input", { id: `column-${number}-name`, value: names[column], autocomplete: "off", spellcheck: "false", oninput: (event) => ((names = { ...names, [column]: event.target.value.trim() }), drawPreview()) }));
      fields.push({ column, field });
      return h("div", {}, h("label", { for: `column-${number}` }, column),
        h("select", { id: `column-${number}`, onchange: (event) => ((roles = { ...roles, [column]: event.target.value }), shown(), drawPreview()) },
          Object.entries(ROLES).map(([role, words]) => h("option", { value: role, selected: roles[column] === role }, words))), field);
    }));
    shown();
    drawPreview();
  }

  /** Whether a column is one field of several, whose name placeholders use. */
  const isField = (column) => (roles[column] === "input" && !isWhole(roles)) || (roles[column] === "expected" && Object.values(roles).filter((role) => role === "expected").length > 1);

  function drawPreview() {
    replace(problem);
    try {
      const samples = samplesOf({ rows: table.rows.slice(0, SHOWN) }, roles, names);
      replace(preview, h("h3", {}, `The first ${samples.length} of ${whole(table.rows.length)} samples`),
        h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Preview" }, h("table", { class: "plain" },
          h("thead", {}, h("tr", {}, ["Input", "Expected", "Further"].map((title) => h("th", { scope: "col" }, title)))),
          h("tbody", {}, samples.map(({ input, expected, ...more }) => h("tr", {}, h("td", {}, short(input)), h("td", {}, expected === undefined ? "–" : short(expected)), h("td", { class: "soft" }, Object.keys(more).length ? short(more) : "")))))));
      store.disabled = false;
      say(store, `Store ${whole(table.rows.length)} sample${table.rows.length === 1 ? "" : "s"}`);
    } catch (error) {
      store.disabled = true;
      replace(preview);
      replace(problem, error.message);
    }
  }

  async function submit(event) {
    event.preventDefault();
    replace(problem);
    store.disabled = true;
    try {
      stored = await api.post("/datasets", { name: name.value.trim(), items: samplesOf(table, roles, names) });
      dialog.close();
    } catch (error) {
      store.disabled = false;
      replace(problem, error.message);
      if (error.field === "name") name.focus();
    }
  }

  return new Promise((resolve) => dialog.addEventListener("close", () => {
    dialog.remove();
    resolve(stored);
  }));
}

function short(value) {
  const text = typeof value === "string" ? value : plain(value);
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
}

/** A spec's text with this dataset, `NAME@VERSION` or an id, in the place of the one it has; what it says of splits and groups stays. */
export function withDataset(text, name) {
  const lines = text.split("\n");
  const first = lines.findIndex((line) => /^dataset\s*:/.test(line));
  const key = isId(name) ? "id" : "name";
  const said = `  ${key}: ${JSON.stringify(name)}`;
  if (first < 0) return `${text.replace(/\n*$/, "\n")}\ndataset:\n${said}\n`;
  let end = first + 1;
  while (end < lines.length && !/^[^\s#-]/.test(lines[end])) end += 1;
  while (end > first + 1 && /^(#.*|\s*)$/.test(lines[end - 1])) end -= 1;
  const block = lines.slice(first + 1, end);
  const indent = /^\s*/.exec(block.find((line) => line.trim()) ?? "  ")[0];
  const kept = [];
  let drops = /^\s*-/.test(block[0] ?? "");
  for (const line of block) {
    const key = line.startsWith(indent) && /^([\w]+)\s*:/.exec(line.slice(indent.length));
    if (key) drops = ["path", "paths", "items", "id", "name", "ref", "format", "columns", "delimiter", "version", "use_case"].includes(key[1]);
    if (!drops) kept.push(line);
  }
  return [...lines.slice(0, first), "dataset:", `${indent || "  "}${key}: ${JSON.stringify(name)}`, ...kept, ...lines.slice(end)].join("\n");
}

/** Whether a dataset is named by what is in it. */
export const isId = (reference) => /^[0-9a-f]{64}$/.test(reference);
