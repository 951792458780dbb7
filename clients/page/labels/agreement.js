// What people said of a question's answers, how far they agree, and what to do with the labels.

import { reading } from "../detail/reading.js";
import { h, replace } from "../dom.js";
import { score, share, whole } from "../format.js";
import { linkTo } from "../router.js";
import { addressOf } from "../source.js";
import { ask } from "../views/dialogs.js";

const METHODS = { cohen: "Cohen’s κ", fleiss: "Fleiss’ κ", krippendorff: "Krippendorff’s α" };
const ABOUT = { cohen: "of what both labelled", fleiss: "of what all labelled", krippendorff: "of what two or more labelled" };

/** `waits` says that what others said is not shown yet, since the reader still labels. */
export function agreementView({ api, at, question, caller, announce, removed, waits }) {
  const body = h("div", { class: "label-agreement" });
  const again = h("button", { type: "button", class: "quiet small", hidden: waits, onclick: show }, "Read again");
  const stored = h("p", { role: "status" });
  const may = caller?.role !== "read", mine = may && (caller === null || caller.role === "admin" || caller.name === question.who);
  const download = (form, text) => h("a", { class: "button", href: addressOf(`${at("labels")}?format=${form}`), download: `labels-${question.question_id}.${form}` }, text);
  const element = h("section", { class: "card", "aria-label": "Labels so far" },
    h("div", { class: "card-head" }, h("h2", {}, "Labels so far"), again),
    body,
    h("div", { class: "buttons" }, download("csv", "Download CSV"), download("jsonl", "Download JSON lines"),
      may ? h("button", { type: "button", onclick: store }, "Store as a dataset…") : null,
      mine ? h("button", { type: "button", class: "danger", onclick: remove }, "Remove…") : null),
    stored);
  let giveUp = () => {};

  function show() {
    again.hidden = false;
    giveUp();
    giveUp = reading(body, (signal) => api.get(at("agreement"), { signal }), draw);
  }

  function draw(found) {
    const all = found.counts.reduce((sum, { times }) => sum + times, 0);
    if (!all) return replace(body, h("p", { class: "soft" }, "Nobody has labelled yet."));
    return replace(body,
      h("dl", { class: "facts" }, found.counts.map(({ label, times }) => h("div", {}, h("dt", {}, label), h("dd", { class: "number" }, `${whole(times)} (${share(times / all)})`)))),
      found.people.length < 2
        ? h("p", { class: "soft" }, `By ${found.people[0]} alone. Once somebody else labels the same answers, this shows how far both agree.`)
        : found.shared === 0 ? h("p", { class: "soft" }, `By ${found.people.join(", ")}; no two labelled the same answer yet.`)
        : [
          h("p", {}, `By ${found.people.join(", ")}. ${whole(found.shared)} answers were labelled by two or more; of the pairs of labels that these have, ${share(found.same)} are the same.`),
          h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Agreement" }, h("table", { class: "plain", "aria-label": "Agreement beyond chance" },
            h("thead", {}, h("tr", {}, ["Beyond chance", "Agreement", "95 % interval", "Answers"].map((title, place) => h("th", { scope: "col", class: place ? "number" : null }, title)))),
            h("tbody", {}, found.kappas.map((one) => h("tr", {}, h("th", { scope: "row" }, METHODS[one.method], h("div", { class: "soft small" }, ABOUT[one.method])),
              h("td", { class: "number" }, one.value === null ? "–" : score(one.value, 2)),
              h("td", { class: "number" }, one.low === null ? "too few" : `${score(one.low, 2)} … ${score(one.high, 2)}`), h("td", { class: "number" }, whole(one.items))))))),
          found.kappas.some(({ value }) => value === null) ? h("p", { class: "soft small" }, "Where all say the same of everything, chance would, too: then nothing can be told.") : h("p", { class: "soft small" }, "1: always the same; 0: as often as by chance."),
        ]);
  }

  async function store() {
    const made = await ask({
      title: "Store these labels as a dataset?",
      body: ["Each labelled answer becomes a sample: the question, the input and the answer; what most people said is expected. A name that is there gets a new version. Answers of which no label has the most are left out."],
      fields: [{ name: "name", label: "Name", value: `${question.optimization_id}-labels`.slice(0, 200).replaceAll("@", "-"), required: true, wide: true, path: "name" }],
      confirm: "Store", act: ({ name }) => api.post(at("dataset"), { name }),
    });
    if (!made) return;
    replace(stored, "Stored as ", h("a", { href: linkTo(["datasets", made.dataset_id]) }, `${made.name}@${made.version}`), `: ${whole(made.count)} samples${made.tied ? `, ${whole(made.tied)} left out` : ""}.`);
    announce(`Stored as ${made.name}, version ${made.version}`);
  }

  function remove() {
    return ask({
      title: "Remove this question?", body: ["All labels that people gave to it go with it. Nothing else changes."],
      confirm: "Remove", kind: "danger", act: async () => {
        await api.remove(at());
        removed();
      },
    });
  }

  if (waits) replace(body, h("p", { class: "soft" }, "What others said is shown when you have labelled all, so that it does not sway you. ", h("button", { type: "button", onclick: show }, "Show it now")));
  else show();
  return { element, show, close: () => giveUp() };
}
