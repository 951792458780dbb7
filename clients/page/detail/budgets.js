// Where a run's budgets stand, how fast they go, and when they will be used up: the arithmetic without the drawing.

import { cost, duration, whole } from "../format.js";

const RECENT = 8; // rounds that the present rate is taken from

const KINDS = [
  { name: "cost", title: "Cost", text: cost },
  { name: "tokens", title: "Tokens", text: whole },
  { name: "samples", title: "Calls", text: whole },
  { name: "trials", title: "Trials", text: whole },
  { name: "wall_time", title: "Time", text: duration },
];

/** Every budget, limited or not, as `{name, title, text, limit, used, points, rate}`; `points` are `[second, used]`. */
export function budgetsOf(run, now = run.now) {
  const { detail, rounds } = run;
  const start = Date.parse(detail.started_at);
  const end = run.isOver ? Date.parse(detail.finished_at ?? detail.updated_at) : Math.max(now, Date.parse(detail.updated_at));
  const seconds = (end - start) / 1000;
  return KINDS.map((kind) => {
    const isTime = kind.name === "wall_time";
    const used = isTime ? Math.max(seconds - (detail.stood_still_seconds ?? 0), 0) : detail.spend[kind.name];
    const points = isTime ? [[0, 0]] : [[0, 0], ...rounds.map((round) => [(Date.parse(round.timestamp) - start) / 1000, round.spend[kind.name]])];
    points.push([Math.max(seconds, points.at(-1)[0]), used]);
    return { ...kind, limit: detail.budget[kind.name] ?? 0, used, points, rate: isTime ? 1 : rateOf(points) };
  });
}

/** What is spent a second, over the last few rounds. */
function rateOf(points) {
  const [from, before] = points[Math.max(points.length - 1 - RECENT, 0)];
  const [to, after] = points.at(-1);
  return to > from ? (after - before) / (to - from) : 0;
}

/** Seconds until all rounds are done at the present rate; null where that is not known. */
export function secondsOfRounds(run, now = run.now) {
  const { detail, rounds } = run;
  if (run.isOver || detail.status === "paused" || !detail.max_rounds || rounds.length < 2) return null;
  const [first, last] = [rounds.at(-Math.min(RECENT + 1, rounds.length)), rounds.at(-1)];
  const each = (Date.parse(last.timestamp) - Date.parse(first.timestamp)) / 1000 / (last.round_index - first.round_index);
  const since = Math.min((now - Date.parse(last.timestamp)) / 1000, each);
  return Math.max(each * (detail.max_rounds - last.round_index) - since, 0);
}

/** Seconds until a budget is used up at the present rate; Infinity where it never will be. */
export const secondsLeft = ({ limit, used, rate }) => (limit && rate > 0 ? Math.max(limit - used, 0) / rate : Infinity);

/** What lies ahead of a budget, in words. */
export function forecast(budget, run, rounds = secondsOfRounds(run)) {
  if (run.isOver || run.detail.status === "paused") return "";
  const left = secondsLeft(budget);
  const atEnd = rounds === null ? null : budget.used + budget.rate * rounds;
  if (budget.limit && left !== Infinity && (rounds === null || left < rounds)) {
    return `used up in about ${duration(left)}${rounds === null ? "" : ", before the last round"}`;
  }
  if (atEnd !== null) return `about ${budget.text(atEnd)} when the last round is done`;
  return budget.rate > 0 && budget.name !== "wall_time" ? `${budget.text(budget.rate * 3600)} an hour` : "";
}
