// Events in words: what happened, as one would tell it.

import { clock, score, whole, words } from "../format.js";

const MOST_ANNOUNCED = 20; // decisions that an event of a round names

/**
 * What an event tells, as lines `{kind, text, candidate, after}`; nothing for events that say nothing new.
 * `rejectionsOf(round)`: the proposals that a round rejected. `partsOf(round)`: what it learned from some samples, in words. `short`: only the gist of each decision.
 */
export function linesOf(event, { rejectionsOf = () => [], partsOf = () => null, short = false } = {}) {
  const facts = event.facts;
  switch (event.type) {
    case "run_status_changed":
      return [statusLine(facts)].filter(Boolean);
    case "best_candidate_changed":
      return []; // the round's decisions, which come with it, say so, and why
    case "progress_changed":
      return roundLines(facts, rejectionsOf(facts.round), partsOf(facts.round), short);
    case "trial_added_or_updated":
      return [trialLine(facts)];
    case "run_finished":
      return [{ kind: facts.status === "completed" ? "baseline" : "failed", strong: true, text: `Run ${facts.status}: ${facts.message || words(facts.stop_reason)}` }];
    case "release_changed":
      return [{ kind: "release", text: `Release of ${facts.prompt} to ${facts.tag}: ${words(facts.status)}${facts.message ? `. ${facts.message}` : ""}` }];
    case "approval_due":
      return [{ kind: "release", text: `Release of ${facts.prompt} to ${facts.tag} still waits for approval` }];
    default:
      return [{ kind: "tried", text: words(event.type) }];
  }
}

/** What a round learned from trials of some samples, which tell of no decision; nothing where there was none. */
export function partsWords(run, round) {
  const ended = run.trials.filter((trial) => trial.part && trial.round === round && trial.finished_at);
  if (!ended.length) return null;
  const [first, ...others] = ended.map((trial) => trial.finished_at).sort((one, other) => Date.parse(one) - Date.parse(other));
  const scores = ended.map((trial) => trial.objective_score ?? null).filter((one) => one !== null).sort((one, other) => one - other);
  const until = others.length ? `, from ${clock(first)} to ${clock(others.at(-1))}` : "";
  const found = scores.length ? `, with scores of ${score(scores[0])} to ${score(scores.at(-1))}` : "";
  return `Round ${whole(round)}: ${whole(ended.length)} trial${others.length ? "s" : ""} of some samples${until}${found}`;
}

function statusLine({ status, before, stop_reason: reason }) {
  if (status === "initialized") return { kind: "running", text: "Run created" };
  if (status === "paused") return { kind: "stopped", text: "Paused" };
  if (status === "running") return { kind: "running", text: before === "paused" ? "Going on" : "Started" };
  return reason || status === "terminated" ? null : { kind: "tried", text: `Status: ${status}` };
}

function roundLines(facts, rejections, parts, short) {
  const decisions = facts.decisions ?? [];
  const lines = decisions.map((decision) => decisionLine(facts.round, decision, short));
  if (decisions.length >= MOST_ANNOUNCED) lines.push({ kind: "tried", text: `Round ${facts.round}: these are the first ${MOST_ANNOUNCED} decisions; the best so far is ${score(facts.best_score)}` });
  for (const rejection of rejections) lines.push({ kind: "rejected", text: `Round ${facts.round}: proposal ${rejection.proposed_index + 1} rejected, ${words(rejection.reason_code)}: ${rejection.message}` });
  if (!lines.length) lines.push({ kind: "tried", text: `Round ${facts.round} decided` });
  return parts ? [...lines, { kind: "part", text: parts }] : lines;
}

function decisionLine(round, decision, short) {
  const why = decision.explanation || (decision.kept ? "kept" : "not kept");
  const said = short ? why.split("; ")[0] : why;
  return { kind: round === 0 ? "baseline" : decision.kept ? "kept" : "tried", text: `Round ${round}: `, candidate: decision.candidate_id, after: ` ${said}` };
}

function trialLine(facts) {
  const purpose = facts.purpose === "candidate" ? "" : facts.part ? `${facts.samples} samples, ` : `${facts.purpose}, `;
  const value = facts.score === null || facts.score === undefined ? "" : ` with ${score(facts.score)}`;
  return { kind: facts.status === "running" ? "running" : facts.status === "completed" ? "tried" : "failed", text: facts.status === "running" ? "Measuring " : `${words(facts.status)}${value}: `, candidate: facts.candidate_id, after: ` (${purpose}round ${facts.round})` };
}
