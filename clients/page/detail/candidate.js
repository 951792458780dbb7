// A candidate: what it changes, what each sample made of it, each slice, and why it was kept or dropped.

import { h, replace } from "../dom.js";
import { capital, cost, milliseconds, plain, score, signed, whole, words } from "../format.js";
import { linkTo } from "../router.js";
import { marksBar } from "../marks/bar.js";
import { choice, labelled, roomyLayout, verdictPill } from "./controls.js";
import { changesView } from "./diff.js";
import { imagesOf } from "./images.js";
import { judgementView } from "./judgement.js";
import { proposalView } from "./proposal.js";
import { reading } from "./reading.js";
import { samplesView } from "./samples.js";
import { slicesView } from "./slices.js";

const TABS = { changes: "Changes", samples: "Samples", slices: "Slices", judgement: "Judgement", proposal: "Proposal" };

export function mount(element, { run, api, marks, subscribe, navigate, announce, params, options: given }) {
  const id = params.candidate;
  let options = given;
  let giveUp = () => {};
  let known = "";
  const steps = ["runs", run.id, "candidates", id];
  const head = h("header", { class: "candidate-head" });
  const said = marksBar(marks, { candidate_id: id }, `candidate ${id}`);
  const tabs = h("nav", { class: "tabs", "aria-label": "Of this candidate" });
  const body = h("div", { class: "candidate-body" });
  replace(element, head, said, tabs, body);

  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });
  const link = (candidate) => h("a", { href: linkTo(["runs", run.id, "candidates", candidate]) }, named(candidate));
  const named = (candidate) => {
    const trial = run.trial(candidate);
    if (candidate === run.detail.baseline_candidate_id) return "the baseline";
    return trial?.number ? `#${trial.number} ${candidate}` : candidate;
  };

  function drawHead() {
    const trial = run.trial(id), baseline = run.trial(run.detail.baseline_candidate_id);
    if (!trial) return replace(head, h("h2", {}, `Candidate ${id}`), h("p", { class: "soft" }, "It was not measured yet."));
    const isBaseline = trial.purpose === "baseline", { headline } = run.detail;
    const isWinner = !isBaseline && id === run.winner;
    const confirmation = run.trial(id, "confirmation");
    const apart = isBaseline || baseline?.objective_score == null || trial.objective_score == null ? null : trial.objective_score - baseline.objective_score;
    const figures = [
      ["Score in the search", scoreText(trial)],
      apart === null ? null : ["To the baseline", signed(apart)],
      confirmation?.objective_score == null ? null : ["In the confirmation", score(confirmation.objective_score)],
      trial.total == null ? null : ["Passed", `${whole(trial.passed)} of ${whole(trial.total)}`],
      trial.coverage != null && trial.coverage < 1 ? ["Coverage", `${(trial.coverage * 100).toFixed(1)} %`] : null,
      Object.keys(trial.errors ?? {}).length ? ["Errors", Object.entries(trial.errors).map(([kind, count]) => `${kind} × ${whole(count)}`).join(", ")] : null,
      ["Cost of its answers", cost(trial.cost)],
      trial.latency_ms == null ? null : ["Latency", milliseconds(trial.latency_ms)],
    ].filter(Boolean);
    replace(head,
      h("h2", {}, isBaseline ? `The baseline ${id}` : `Candidate ${named(id)}`),
      h("p", { class: "pills" },
        h("span", { class: "pill", "data-kind": trial.status === "running" ? "accent" : trial.status === "completed" ? null : "bad" }, capital(words(trial.status))),
        isWinner ? h("span", { class: "pill", "data-kind": headline.outcome === "unproven" ? "warn" : "good" }, headline.outcome === "unproven" ? "Unproven" : "Best") : null,
        isWinner && headline.verdict ? verdictPill(headline.verdict, "Confirmed: ") : null,
        trial.verdict ? verdictPill(trial.verdict, "In its round: ") : null,
        trial.stopped_early ? h("span", { class: "pill", "data-kind": "warn" }, "Stopped early") : null,
        h("span", { class: "soft" }, `Round ${trial.round}`),
      ),
      h("dl", { class: "facts" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "number" }, value)))),
      trial.rationale ? h("p", { class: "rationale" }, trial.rationale) : null,
      trial.error ? h("p", { class: "problem" }, trial.error) : null,
      trial.parents?.length ? h("p", { class: "lineage" }, h("span", { class: "soft" }, "From "), listed(trial.parents.map(link))) : null,
    );
  }

  function drawTab() {
    giveUp();
    const tab = TABS[options.get("tab")] ? options.get("tab") : "changes";
    replace(tabs, Object.entries(TABS).map(([name, title]) => h("a", { href: linkTo(steps, { tab: name }), "aria-current": name === tab ? "page" : null }, title)));
    if (body.dataset.tab !== tab) replace(body);
    body.dataset.tab = tab;
    giveUp = DRAW[tab]();
  }

  const DRAW = {
    changes: () => reading(body, (signal) => api.get(api.ofRun(run.id, "candidates", id), { signal }), drawChanges),
    samples: drawSamples,
    slices: () => slicesView(body, { run, api, candidate: id, purpose: options.get("purpose"), options, go, baseline: run.detail.baseline_candidate_id }),
    proposal: () => reading(body, (signal) => api.get(api.ofRun(run.id, "proposals"), { query: { candidate: id }, signal }), drawProposals),
    judgement: () => reading(body, (signal) => api.get(api.ofRun(run.id, "trials", id), { signal }), (trial) => replace(body, judgementView(trial, { maximizes: run.maximizes, named: (other) => (run.trial(other) ? link(other) : other) }))),
  };

  function drawProposals({ items }) {
    replace(body, items.length ? items.map((place) => proposalView(run, place, { link, open: items.length === 1 }))
      : h("p", { class: "soft" }, "No proposer was asked for exactly this: it is the baseline, somebody’s own proposal, or the optimizer made it of several answers or by itself. ",
        h("a", { href: linkTo(["runs", run.id, "proposals"], { round: run.trial(id)?.round }) }, "What was asked in its round")));
  }

  function drawChanges(candidate) {
    const ancestors = [...new Map([candidate.baseline, ...candidate.parents].map((one) => [one.candidate_id, one])).values()].filter((one) => one.candidate_id !== id);
    const against = ancestors.find((one) => one.candidate_id === options.get("against")) ?? ancestors[0];
    const layout = options.get("layout") ?? roomyLayout();
    const name = (one) => (one.candidate_id === candidate.baseline.candidate_id ? "the baseline" : `parent ${named(one.candidate_id)}`);
    replace(body,
      against ? [
        h("div", { class: "choices" },
          labelled("Compared with", choice("against", ancestors.map((one) => [one.candidate_id, name(one)]), against.candidate_id, (chosen) => go({ against: chosen }))),
          labelled("Shown", choice("layout", [["split", "Side by side"], ["unified", "As one text"]], layout, (chosen) => go({ layout: chosen }))),
        ),
        changesView(against.changes, { layout, from: name(against), to: "this candidate" }),
      ] : h("p", { class: "soft" }, "This is what every candidate is compared with."),
      candidate.children.length ? h("p", { class: "lineage" }, h("span", { class: "soft" }, "Went on to "), listed(candidate.children.map(link))) : null,
      h("details", { class: "configuration" }, h("summary", {}, "Whole configuration"),
        h("dl", {}, Object.entries(candidate.configuration).map(([factor, value]) => h("div", {}, h("dt", {}, factor), h("dd", {}, h("pre", { tabindex: "0", role: "group", "aria-label": factor }, plain(value)), imagesOf(value, factor)))))),
    );
  }

  function drawSamples() {
    const { baseline_candidate_id: baseline } = run.detail;
    const parents = run.trial(id)?.parents ?? [];
    const others = [...new Set([baseline, ...parents, run.winner])].filter((one) => one && one !== id);
    const asked = options.get("against");
    const against = asked ?? others[0] ?? id;
    const purposes = run.trial(id, "confirmation") && run.trial(against, "confirmation") ? [["", "The search's"], ["confirmation", "The confirmation's"]] : [];
    const bar = h("div", { class: "choices" },
      labelled("Compared with", choice("against", [...new Set([against, ...others])].map((one) => [one, capital(named(one))]), against, (chosen) => go({ against: chosen, page: null, only: null }))),
      purposes.length ? labelled("Samples", choice("purpose", purposes, options.get("purpose") ?? "", (chosen) => go({ purpose: chosen || null, page: null, only: null }))) : null,
    );
    const place = h("div", {});
    replace(body, bar, place);
    const names = { before: capital(named(against)), after: id === baseline ? "The baseline" : "This candidate" };
    const purpose = purposes.length ? options.get("purpose") : null;
    const ask = (query, signal) => api.get(api.ofRun(run.id, "comparison"), { query: { candidate: id, against, purpose, ...query }, signal });
    const sides = { before: against, after: id };
    const sent = (side, answer, item, signal) => api.get(api.ofRun(run.id, "trials", sides[side], "sent"), { query: { sample: item, replicate: answer.replicate, purpose }, signal });
    const linkOf = (number) => linkTo(steps, { tab: "samples", against: asked, purpose, page: number < 20 ? null : Math.floor(number / 20) + 1, sample: number });
    return samplesView(place, { linkOf, sent, ask, names, options, go, announce, marksOf: (side, answer, item) => marksBar(marks, { candidate_id: sides[side], item_id: item, replicate: answer.replicate }, `the answer of ${sides[side]} to ${item}`) });
  }

  function changed() {
    const trial = run.trial(id);
    const now = JSON.stringify([trial, run.detail.headline, run.detail.baseline_candidate_id, run.trial(id, "confirmation")?.objective_score]);
    if (now === known) return;
    const first = known === "";
    known = now;
    drawHead();
    if (first || trial?.status !== "running") drawTab();
  }

  const unsubscribe = subscribe((what) => what.has("detail") && changed());
  changed();
  return {
    go: (now) => ((options = now), drawTab()),
    unmount: () => (unsubscribe(), giveUp()),
  };
}

function scoreText(trial) {
  if (trial.objective_score == null) return "–";
  const half = trial.low == null ? "" : ` (${score(trial.low)} … ${score(trial.high)})`;
  return score(trial.objective_score) + half;
}

const listed = (links) => links.flatMap((one, place) => (place ? [", ", one] : [one]));
