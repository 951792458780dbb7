// Where a run's budgets stand, how fast they go, and when they will be used up: the arithmetic without the drawing.

import { cost, duration, whole } from "../format.js";

const KINDS = [
  { name: "cost", title: "Cost", text: cost },
  { name: "tokens", title: "Tokens", text: whole },
  { name: "samples", title: "Calls", text: whole },
  { name: "trials", title: "Trials", text: whole },
  { name: "wall_time", title: "Time", text: duration },
];

const MOST_POINTS = 600; // of a curve between two rounds; more are not told apart

/** Every budget, limited or not, as `{name, title, text, limit, used, points, rate, atEnd}`; `points` are `[second, used]`, the rate
 *  is that of the whole run, and `atEnd` what will be used by the time that the server foretells; null where it foretells none. */
export function budgetsOf(run, now = run.now) {
  const { detail } = run;
  const start = Date.parse(detail.started_at);
  const end = run.isOver ? Date.parse(detail.finished_at ?? detail.updated_at) : Math.max(now, Date.parse(detail.updated_at));
  const seconds = (end - start) / 1000;
  const served = Math.max(seconds - (detail.stood_still_seconds ?? 0), 0);
  const known = run.isOver ? served : served - (now - run.readAt) / 1000;
  const ended = endedTrials(run, start);
  return KINDS.map((kind) => {
    const isTime = kind.name === "wall_time";
    const used = isTime ? served : detail.spend[kind.name];
    const points = isTime ? [[0, 0], [Math.max(seconds, 0), used]] : spentOver(run, kind.name, ended, start, [seconds, used]);
    const rate = isTime ? 1 : known > 0 ? used / known : 0;
    const ahead = isTime ? secondsLeft(run, now) : detail.seconds_left;
    return { ...kind, limit: detail.budget[kind.name] ?? 0, used, points, rate, atEnd: ahead === null ? null : used + rate * ahead };
  });
}

/** Trials by the second of their end, with what each was paid for. */
function endedTrials({ trials }, start) {
  return trials.filter((trial) => trial.finished_at)
    .map((trial) => ({ second: (Date.parse(trial.finished_at) - start) / 1000, samples: trial.paid_samples, tokens: trial.paid_tokens, cost: trial.paid_cost, trials: 1 }))
    .sort((one, other) => one.second - other.second);
}

/**
 * What was spent by when. A round tells it for the time of its decision, but the last one once more for the end; between them it
 * grows as trials end, and what proposers took is spread over these.
 */
function spentOver({ rounds }, name, ended, start, [seconds, used]) {
  const known = rounds.filter((round) => !round.stopped).map((round) => [(Date.parse(round.timestamp) - start) / 1000, round.spend[name]]);
  known.push([Math.max(seconds, known.at(-1)?.[0] ?? 0), used]);
  const points = [[0, 0]];
  let place = 0;
  for (const [second, total] of known) {
    const [since, before] = points.at(-1);
    const first = place;
    let paid = 0;
    while (place < ended.length && ended[place].second <= second) paid += ended[place++][name];
    const part = paid > 0 ? (total - before) / paid : 0;
    const apart = (second - since) / MOST_POINTS;
    let sum = before;
    for (const trial of ended.slice(first, place)) {
      sum += trial[name] * part;
      if (trial.second >= points.at(-1)[0] + apart) points.push([trial.second, sum]);
    }
    points.push([second, total]);
  }
  return points;
}

/** Seconds until the run is over at the latest, as the server foretold them; null where nothing bounds it, or it does not go on. */
export function secondsLeft(run, now = run.now) {
  const { seconds_left: left } = run.detail;
  return left === null ? null : Math.max(left - (now - run.readAt) / 1000, 0);
}

/** What lies ahead of a budget, in words. */
export function forecast({ name, text, limit, rate, atEnd }, run, left = secondsLeft(run)) {
  if (run.isOver || run.detail.status === "paused") return "";
  if (atEnd === null) return rate > 0 && name !== "wall_time" ? `${text(rate * 3600)} an hour` : "";
  return limit && atEnd >= limit * 0.999 ? `used up in about ${duration(left)}, before all else` : `about ${text(atEnd)} by then`;
}
