// What a candidate and the baseline scored on each part of the dataset.

import { h, replace } from "../dom.js";
import { score, signed, whole } from "../format.js";
import { reading } from "./reading.js";

/** `options` may name fields (`field`, comma separated); `go(changes)` changes them. */
export function slicesView(element, { run, api, candidate, purpose, options, go, baseline }) {
  const given = options.get("field") ?? "";
  const field = h("input", { type: "text", id: "slice-field", value: given, placeholder: "tags, expected, input.language", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "slice-form", onsubmit: (event) => (event.preventDefault(), go({ field: field.value.trim() || null })) },
    h("label", { for: "slice-field" }, "Slice by"), field, h("button", { type: "submit" }, "Show"),
  );
  const place = h("div", {});
  replace(element, form, place);
  const fields = given.split(",").map((name) => name.trim()).filter(Boolean);
  const query = new URLSearchParams([...fields.map((name) => ["field", name]), ...(purpose ? [["purpose", purpose]] : [])]);
  const ask = (signal) => api.get(`${api.ofRun(run.id, "trials", candidate, "slices")}?${query}`, { signal });
  return reading(place, ask, (found) => replace(place, table(found, run.maximizes, candidate === baseline)));
}

function table({ slices, left_out: leftOut, split }, maximizes, alone) {
  if (!slices.length) return h("p", { class: "soft" }, "The samples have no tags and no such field; name a field of theirs above, as input.language.");
  const widest = Math.max(...slices.map((part) => Math.abs(gainOf(part, maximizes) ?? 0)), 1e-9);
  const more = Object.entries(leftOut).map(([name, count]) => `${whole(count)} more values of ${name}`);
  return [
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Scores by slice" }, h("table", { class: "plain slices" },
      h("caption", { class: "soft" }, `On the ${split} samples; the largest slices first.`),
      h("thead", {}, h("tr", {},
        h("th", { scope: "col" }, "Slice"), h("th", { scope: "col", class: "number" }, "Samples"),
        alone ? null : h("th", { scope: "col", class: "number" }, "Baseline"), h("th", { scope: "col", class: "number" }, "Score"),
        alone ? null : h("th", { scope: "col", class: "number" }, "Difference"), alone ? null : h("td", {}),
      )),
      h("tbody", {}, slices.map((part) => row(part, widest, maximizes, alone))),
    )),
    more.length ? h("p", { class: "soft" }, `And ${more.join(", ")}.`) : null,
  ];
}

function row(part, widest, maximizes, alone) {
  const gain = gainOf(part, maximizes);
  const kind = !gain ? "soft" : gain > 0 ? "good" : "bad";
  const bar = h("span", { class: `slice-bar ${kind}` });
  bar.style.width = `${(Math.abs(gain ?? 0) / widest) * 100}%`;
  const difference = gain === null ? null : part.objective_score - part.baseline_score;
  return h("tr", {},
    h("th", { scope: "row" }, part.name), h("td", { class: "number" }, whole(part.samples)),
    alone ? null : h("td", { class: "number" }, score(part.baseline_score)), h("td", { class: "number" }, score(part.objective_score)),
    alone ? null : h("td", { class: `number ${kind}` }, signed(difference)), alone ? null : h("td", { class: "slice-bars", "aria-hidden": "true" }, bar),
  );
}

function gainOf(part, maximizes) {
  if (part.baseline_score === null || part.objective_score === null) return null;
  return (part.objective_score - part.baseline_score) * (maximizes ? 1 : -1);
}
