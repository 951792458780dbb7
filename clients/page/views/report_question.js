// Which runs a report to send is about, and as what kind of file; the server writes it.

import { h, replace, say } from "../dom.js";
import { whole } from "../format.js";
import { addressOf } from "../source.js";
import { ask } from "./dialogs.js";

const MOST_RUNS = 20; // as the server has it
const FORMS = [
  ["html", "One HTML file", "It opens without a server."],
  ["zip", "A ZIP with a file for each run", "Its index.html lists and compares them."],
];

/** Ask for the form of a report and have it kept. `runs` are `{id, name}`; where `mayChoose`, each can be left out. */
export function askForReport(runs, { mayChoose = false, total = runs.length } = {}) {
  const told = h("p", { class: "soft small", role: "status" });
  const ticks = runs.map(({ id, name }, place) => {
    const words = h("span", {}, name, " ", h("span", { class: "mono soft small" }, id));
    return h("li", {}, mayChoose ? h("label", { class: "check" }, h("input", { type: "checkbox", value: id, checked: place < MOST_RUNS, onchange: count }), words) : words);
  });
  const list = h("fieldset", { class: "report-runs" }, h("legend", {}, "Runs"), h("ul", {}, ticks), told);
  const forms = FORMS.map(([form, name, about], place) => h("label", { class: "check" },
    h("input", { type: "radio", name: "report-form", value: form, checked: place === 0 }), h("span", {}, name, h("span", { class: "soft small" }, ` ${about}`))));
  const full = h("input", { type: "checkbox" });
  const chosen = () => (mayChoose ? [...list.querySelectorAll("input:checked")].map((box) => box.value) : runs.map(({ id }) => id));

  function count() {
    if (list.form) replace(list.form.querySelector("[role=alert]")); // it spoke of what was ticked before
    if (!mayChoose) return;
    const more = total > runs.length ? ` The list shows ${whole(runs.length)} of ${whole(total)}.` : "";
    say(told, `${whole(chosen().length)} of ${whole(runs.length)} ticked; at most ${MOST_RUNS} in one report.${more}`);
  }

  count();
  return ask({
    title: "A report to send",
    body: [list, h("fieldset", { class: "report-forms" }, h("legend", {}, "File"), forms,
      h("label", { class: "check" }, full, h("span", {}, "with answers", h("span", { class: "soft small" }, " Every candidate, and what best and baseline answered."))))],
    confirm: "Download",
    async act() {
      const named = chosen();
      if (!named.length) throw new Error("Tick a run.");
      if (named.length > MOST_RUNS) throw new Error(`Tick at most ${MOST_RUNS} runs.`);
      const query = new URLSearchParams([...named.map((id) => ["of", id]), ["format", list.form.querySelector("[name=report-form]:checked").value], ["full", full.checked]]);
      h("a", { href: addressOf(`/report?${query}`), download: true }).click();
    },
  });
}
