// The spec that a run was started with, and what it ran on.

import { h, replace } from "../dom.js";
import { plain } from "../format.js";

export function mount(element, { run }) {
  const { detail } = run;
  const rows = [
    ["Run", run.id], ["Use case", detail.use_case], ["Experiment", detail.experiment], ["Dataset", detail.dataset_id], ["Evaluation suite", detail.evaluation_suite_id],
    ["Search split", detail.search_split], ["Task queue", detail.task_queue], ["Versions", Object.entries(detail.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
    ["Adjusted", Object.keys(detail.limits).length ? plain(detail.limits) : "nothing"],
  ];
  replace(element,
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Spec")), h("pre", { class: "scroll", tabindex: "0", "aria-label": "Spec as JSON" }, plain(withoutNothing(detail.spec)))),
      h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Identity")), h("dl", { class: "figures" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]))),
    ),
  );
  return () => {};
}

/** Without what was left out: `null` and empty lists say nothing. */
function withoutNothing(value) {
  if (Array.isArray(value)) return value.map(withoutNothing);
  if (value === null || typeof value !== "object") return value;
  const said = Object.entries(value).filter(([, part]) => part !== null && !(typeof part === "object" && Object.keys(part).length === 0));
  return Object.fromEntries(said.map(([name, part]) => [name, withoutNothing(part)]));
}
