// The first screen of a report about several runs: each in a line, and how they compare.

import { reading } from "../detail/reading.js";
import { verdictPill } from "../detail/controls.js";
import { h, replace } from "../dom.js";
import { cost, day, duration, signed, whole, words } from "../format.js";
import { tableOf } from "../library/screen.js";
import { linkTo } from "../router.js";
import { report } from "../source.js";
import { statusPill } from "./status.js";

export function mount(element, { api }) {
  const runs = h("div", { class: "library-body" }), pairs = h("div", { class: "library-body" });
  replace(element, h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Runs"), h("span", { class: "soft" }, `As they were on ${day(report.written_at)}`)), runs, pairs);
  const giveUp = reading(runs, (signal) => api.get("/optimizations", { signal }), ({ items }) => {
    replace(runs, h("div", { class: "card flush" }, tableOf("Runs", ["Run", "Status", "Result", "Rounds", "Spent", "Started"], items.map(rowOf))));
    drawPairs(new Map(items.map((one) => [one.optimization_id, one.name])));
  });

  function drawPairs(names) {
    if (!report.pairs.length) return;
    replace(pairs, h("h2", {}, "Compared"), h("p", { class: "soft" }, "The second with the first, on the samples that both were measured on; each verdict is of its pair alone."),
      h("div", { class: "card flush" }, tableOf("Comparisons", ["Runs", "Verdict", "Difference", "Fixed, broken"], report.pairs.map((pair) => pairOf(pair, names)))));
  }

  return { unmount: giveUp };
}

function rowOf(run) {
  const link = linkTo(["runs", run.optimization_id]);
  const { spend, budget, headline } = run;
  const took = run.finished_at ? `took ${duration((new Date(run.finished_at) - new Date(run.started_at)) / 1000 - run.stood_still_seconds)}` : "";
  return [
    [h("a", { href: link }, run.name), h("div", { class: "mono soft small" }, run.optimization_id)],
    statusPill(run),
    [h("strong", { class: headline.holds ? "good" : "" }, headline.brief || "–"), h("div", { class: "soft small" }, `${run.direction} ${run.objective_name}`)],
    [h("span", { class: "number" }, whole(run.round)), h("div", { class: "soft small" }, words(run.stop_reason ?? ""))],
    [cost(spend.cost), budget.cost ? h("span", { class: "soft" }, ` of ${cost(budget.cost)}`) : null, h("div", { class: "soft small" }, `${whole(spend.samples)} calls`)],
    h("span", { class: "soft" }, day(run.started_at), h("div", { class: "small" }, took)),
  ];
}

function pairOf({ of, verdict, difference, fixed, broken, problem }, names) {
  const name = (id) => names.get(id) === undefined || [...names.values()].filter((one) => one === names.get(id)).length > 1 ? id : names.get(id);
  const title = `${name(of[0])} and ${name(of[1])}`;
  if (problem) return [title, h("span", { class: "soft" }, "not compared"), h("span", { class: "soft small" }, problem), ""];
  return [h("a", { href: linkTo(["comparisons", ...of]) }, title), verdict ? verdictPill(verdict) : h("span", { class: "soft" }, "no answer in both"), h("span", { class: "number" }, difference === null ? "–" : signed(difference)), `${whole(fixed)}, ${whole(broken)}`];
}
