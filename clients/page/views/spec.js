// The spec that a run was started with, what it ran on, and the run as files.

import { copyButton } from "../copy_button.js";
import { reading } from "../detail/reading.js";
import { h, replace } from "../dom.js";
import { plain } from "../format.js";
import { addressOf, isLive } from "../source.js";

const FILES = [
  ["html", "", "Report, one HTML file", "The page of this run: it opens without a server."],
  ["html", "&full=true", "The same with answers", "With every candidate, and what best and baseline answered."],
  ["markdown", "", "Markdown", "The report as text."],
  ["yaml", "", "History, YAML", "What ratchet replay reads."],
  ["json", "", "JSON", "For programs."],
  ["csv", "", "Answers, CSV", "A line for each answer and score."],
];

export function mount(element, { run, api }) {
  const { detail } = run;
  const rows = [
    ["Run", run.id], ["Use case", detail.use_case], ["Experiment", detail.experiment], ["Dataset", detail.dataset_id], ["Evaluation suite", detail.evaluation_suite_id],
    ["Search split", detail.search_split], ["Task queue", detail.task_queue], ["Versions", Object.entries(detail.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
    ["Adjusted", Object.keys(detail.limits).length ? plain(detail.limits) : "nothing"],
  ];
  const asJson = plain(withoutNothing(detail.spec));
  const written = h("div", {});
  const drawSpec = (text, kind) => replace(written, h("div", { class: "card-head" }, h("h2", {}, "Spec"), copyButton(text, "the spec")), h("pre", { class: "scroll", tabindex: "0", "aria-label": `Spec as ${kind}` }, text));
  replace(element,
    h("div", { class: "columns" },
      h("section", { class: "card" }, written),
      h("div", { class: "side-column" },
        h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Identity"), copyButton(run.id, "the run’s id")), h("dl", { class: "figures" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]))),
        isLive ? h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Files")),
          h("ul", { class: "file-links" }, FILES.map(([form, more, name, about]) => h("li", {},
            h("a", { href: addressOf(`${api.ofRun(run.id, "report")}?format=${form}${more}`), download: true }, name), h("div", { class: "soft small" }, about))))) : null)),
  );
  const drawFound = (found) => {
    if (!found) return drawSpec(asJson, "JSON");
    if (found.written === null) return drawSpec(found.text, "YAML");
    drawSpec(found.written, "its author wrote it");
    written.append(h("details", {}, h("summary", {}, "As it was run"), h("pre", { class: "scroll", tabindex: "0", "aria-label": "Spec as it was run" }, found.text)));
  };
  return reading(written, (signal) => api.get(api.ofRun(run.id, "spec"), { signal }).catch((error) => (error.name === "AbortError" ? Promise.reject(error) : null)), drawFound);
}

/** Without what was left out: `null` and empty lists say nothing. */
function withoutNothing(value) {
  if (Array.isArray(value)) return value.map(withoutNothing);
  if (value === null || typeof value !== "object") return value;
  const said = Object.entries(value).filter(([, part]) => part !== null && !(typeof part === "object" && Object.keys(part).length === 0));
  return Object.fromEntries(said.map(([name, part]) => [name, withoutNothing(part)]));
}
