// A prompt rendered for one input: typed, or that of a sample of a dataset.

import { choice, labelled } from "../detail/controls.js";
import { reading } from "../detail/reading.js";
import { h, replace } from "../dom.js";
import { plain } from "../format.js";

const OFFERED = 50; // datasets, and samples of the chosen one

export function mountRender(element, { api, path, choices, at, go, options }) {
  let giveUp = [];
  let dataset = null, sample = null;
  const input = h("textarea", { id: "render-input", rows: "8", spellcheck: "false", class: "mono" });
  const problem = h("p", { class: "problem", role: "alert" });
  const result = h("div", { class: "library-body" });
  const samples = h("div", { class: "choices" });
  const form = h("form", { class: "card render-form", onsubmit: (event) => (event.preventDefault(), render()) },
    h("div", { class: "choices" }, labelled("As put in force by", choice("at", choices, at, (chosen) => go({ at: chosen }))), samples),
    h("div", { class: "labelled" }, h("label", { for: input.id }, "Input, as JSON"), input), problem, h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Render")));
  replace(element, form, result);
  input.value = options.get("input") ?? "{}";

  const ask = (place, request, draw) => giveUp.push(reading(place, request, draw));
  ask(samples, (signal) => api.get("/datasets", { query: { limit: OFFERED }, signal }), ({ items }) => {
    const chooser = h("div", {});
    replace(samples, labelled("With a sample of", choice("dataset", [["", "no dataset"], ...items.map((one) => [one.dataset_id, one.versions.at(-1) ?? one.name])], "", (chosen) => choose(chosen))), chooser);
    function choose(id) {
      dataset = id;
      replace(chooser);
      if (!id) return;
      ask(chooser, (signal) => api.get(`/datasets/${encodeURIComponent(id)}/samples`, { query: { limit: OFFERED }, signal }), (page) => {
        if (dataset !== id) return;
        const take = (position) => {
          sample = page.items.find((one) => String(one.position) === position);
          input.value = plain(typeof sample.input === "string" ? JSON.stringify(sample.input) : sample.input);
          render();
        };
        replace(chooser, labelled("Sample", choice("sample", page.items.map((one) => [String(one.position), one.item_id]), "", take)));
        if (page.items.length) take(String(page.items[0].position));
      });
    }
  });

  async function render() {
    replace(problem);
    let given;
    try {
      given = JSON.parse(input.value.trim() || "null");
    } catch (error) {
      return replace(problem, `The input is not JSON: ${error.message}`);
    }
    try {
      const found = await api.post(path("render"), { at, input: given });
      return replace(result,
        h("section", { class: "card" }, h("h2", {}, "Text"), h("pre", { tabindex: "0", role: "group", "aria-label": "Rendered text" }, found.text)),
        found.messages.length > 1 ? h("section", { class: "card" }, h("h2", {}, "As messages"), found.messages.map((message) => h("div", { class: "text-block" }, h("p", { class: "block-name" }, message.role), h("pre", { tabindex: "0", role: "group", "aria-label": message.role }, message.content)))) : null,
        found.tools.length ? h("section", { class: "card" }, h("h2", {}, "Tools"), h("pre", { tabindex: "0", role: "group", "aria-label": "Tools" }, plain(found.tools))) : null);
    } catch (error) {
      return replace(problem, error.message);
    }
  }

  return () => giveUp.forEach((stop) => stop());
}
