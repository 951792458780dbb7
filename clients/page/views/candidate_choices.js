// The candidates of a run as a list to tick, the baseline first, then the best scores.

import { h, replace } from "../dom.js";
import { score, whole } from "../format.js";

const SHOWN = 200; // candidates at once: a word finds the others

/** `{element, chosen()}`; `named(id)` is a candidate in words, `ticked` those that are chosen now, in their order. */
export function candidateChoices(run, named, ticked) {
  const chosen = new Set(ticked);
  const sign = run.maximizes ? -1 : 1;
  const rank = (trial) => (trial.candidate_id === run.detail.baseline_candidate_id ? -Infinity : trial.objective_score === null ? Infinity : sign * trial.objective_score);
  const trials = [...new Map(run.searching.filter((trial) => !trial.part).map((trial) => [trial.candidate_id, trial])).values()].sort((one, other) => rank(one) - rank(other) || one.number - other.number);
  const search = h("input", { id: "candidate-choices-search", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "part of a name", oninput: draw, onkeydown: (event) => event.key === "Enter" && event.preventDefault() });
  const list = h("fieldset", { class: "run-choices" });
  const element = h("div", { class: "candidate-choices" }, trials.length > 8 ? h("div", { class: "labelled" }, h("label", { for: search.id }, "Find"), search) : null, list);

  function draw() {
    const word = search.value.trim().toLowerCase();
    const found = trials.filter((trial) => named(trial.candidate_id).toLowerCase().includes(word));
    replace(list, h("legend", {}, "Candidates of this run"),
      found.slice(0, SHOWN).map(({ candidate_id: id, objective_score: value }) => {
        const box = h("input", { type: "checkbox", checked: chosen.has(id), onchange: () => chosen[box.checked ? "add" : "delete"](id) });
        return h("label", { class: "check" }, box, named(id), h("span", { class: "soft small number" }, score(value)), id === run.winner ? h("span", { class: "pill" }, "best") : null);
      }),
      found.length > SHOWN ? h("p", { class: "soft small" }, `And ${whole(found.length - SHOWN)} more: find them by their names.`) : null,
      found.length ? null : h("p", { class: "soft" }, "No candidate is called like that."));
  }

  draw();
  return { element, chosen: () => [...chosen].filter((id) => run.trial(id)) };
}
