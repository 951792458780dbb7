// Why a candidate was kept or dropped: the decision, and the numbers behind it.

import { h } from "../dom.js";
import { score, signed, whole, words } from "../format.js";

/** `trial` as GET …/trials/{candidate} gives it; `named(id)` is a candidate in words. */
export function judgementView(trial, { maximizes, named }) {
  const decision = trial.judged;
  return [
    decision ? h("p", { class: "judged" }, decision.explanation) : h("p", { class: "soft" }, trial.status === "running" ? "Not decided yet." : "No round has decided about this trial."),
    trial.stopped_early ? h("p", {}, "Stopped early: ", trial.stopped_early) : null,
    decision && Object.keys(decision.objectives).length ? h("p", {}, "Of the further objectives: ", Object.entries(decision.objectives).map(([name, verdict]) => `${name} ${words(verdict)}`).join(", "), ".") : null,
    ...trial.evidence.map((evidence) => evidenceOf(evidence, maximizes, named)),
  ];
}

function evidenceOf(evidence, maximizes, named) {
  const facts = [
    ["Gain", `${signed(evidence.effect)}${evidence.refused ? "" : ` (${Math.round(evidence.confidence * 100)} % interval ${signed(evidence.low)} … ${signed(evidence.high)})`}`],
    ["Mean over samples", `${score(evidence.reference_mean)} → ${score(evidence.mean)}`],
    ["Samples", `${evidence.merged_from ? `${whole(evidence.merged_from)}, which count as ` : ""}${whole(evidence.n)} answered by both${evidence.missing ? `, ${whole(evidence.missing)} left out` : ""}`],
    ["Better, worse", `${whole(evidence.better)}, ${whole(evidence.worse)}`],
    ["p, better", chance(evidence.p_better)],
    [`p, not worse by ${score(evidence.margin)}`, chance(evidence.p_not_worse)],
    ["Test", evidence.method],
    evidence.must_pass_broken.length ? ["Must-pass samples that failed", evidence.must_pass_broken.join(", ")] : null,
  ].filter(Boolean);
  return h("section", { class: "evidence" },
    h("h3", {}, "Against ", named(evidence.reference)),
    evidence.refused ? h("p", { class: "soft" }, evidence.refused) : null,
    h("dl", { class: "figures" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "number" }, value)])),
    maximizes ? null : h("p", { class: "soft" }, "Lower scores are better here; a gain is a lower score."),
    evidence.constraints.length ? constraints(evidence.constraints) : null,
    objectives(evidence.objectives),
  );
}

function constraints(checks) {
  return h("table", { class: "plain" },
    h("caption", {}, "Constraints"),
    h("tbody", {}, checks.map((check) => h("tr", {},
      h("th", { scope: "row" }, check.constraint),
      h("td", { class: "number" }, check.value === null ? "not measured" : score(check.value)),
      h("td", {}, h("span", { class: "pill", "data-kind": check.holds ? "good" : "bad" }, check.holds ? "holds" : "broken"), check.certain ? "" : " (not certain)"),
    ))),
  );
}

function objectives(found) {
  const rows = Object.entries(found);
  if (!rows.length) return null;
  return h("table", { class: "plain" },
    h("caption", {}, "Further objectives"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Objective"), h("th", { scope: "col", class: "number" }, "Gain"), h("th", { scope: "col", class: "number" }, "Interval"))),
    h("tbody", {}, rows.map(([name, evidence]) => h("tr", {},
      h("th", { scope: "row" }, name), h("td", { class: "number" }, signed(evidence.effect)),
      h("td", { class: "number" }, `${signed(evidence.low)} … ${signed(evidence.high)}`),
    ))),
  );
}

const chance = (p) => (p < 0.0001 ? "under 0.0001" : p.toFixed(4));
