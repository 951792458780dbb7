// Numbers, times and the product's words, as people read them.

const WORDS = {
  not_worse: "not worse",
  target_reached: "target score reached",
  no_improvement: "no more improvement",
  algorithm_specific: "the optimizer was done",
  max_rounds: "all rounds done",
  time_budget: "time budget used up",
  token_budget: "token budget used up",
  cost_budget: "cost budget used up",
  sample_budget: "call budget used up",
  baseline_failed: "the baseline failed",
  first_look: "stopped after the first look",
  proposal_failure: "proposals failed",
  scoring_failure: "scoring failed",
  execution_failure: "execution failed",
  too_many_failures: "too many failures in a row",
  stopped_early: "stopped early",
};

/** `not_worse` → "not worse". */
export const words = (name) => WORDS[name] ?? String(name ?? "").replaceAll("_", " ");

/** "Completed". */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Two to four decimals; what is smaller than 0.01 keeps three significant digits. */
export function score(value, decimals = 4) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && (Math.abs(value) < 0.01 || Math.abs(value) >= 1e9)) return trimmed(value.toPrecision(decimals - 1));
  const [whole, fraction] = value.toFixed(decimals).split(".");
  const text = `${whole}.${fraction.replace(/0+$/, "").padEnd(2, "0")}`;
  return text === "-0.00" ? "0.00" : text.replace("-", "−");
}

/** Four decimals, so that a column lines up. */
export const fixed = (value) => (value === null || value === undefined ? "" : Math.abs(value) < 1e5 ? value.toFixed(4).replace("-", "−") : score(value));

/** A difference, always with its sign. */
export const signed = (value, decimals = 4) => (value === null || value === undefined ? "–" : value < 0 ? score(value, decimals) : `+${score(value, decimals)}`);

/** "45%" */
export const share = (part) => `${Math.round(part * 100)}%`;

/** Money has no currency of its own here: it is that of the spec's prices. */
export function cost(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  return Math.abs(value) < 0.01 ? trimmed(value.toPrecision(2)) : value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: value < 1 ? 4 : 2 });
}

/** "1,234" */
export const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

/** "12.3k" */
export function compact(value) {
  if (value === null || value === undefined) return "–";
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** "45s", "12m 3s", "2h 5m", "3d 4h" */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const total = Math.max(Math.round(seconds), 0);
  const units = [[Math.floor(total / 86400), "d"], [Math.floor(total / 3600) % 24, "h"], [Math.floor(total / 60) % 60, "m"], [total % 60, "s"]];
  const first = Math.min(Math.max(units.findIndex(([amount]) => amount > 0), 0) || (total < 60 ? 3 : 0), 3);
  const shown = units.slice(first, first + 2).filter(([amount], place) => amount || place === 0);
  return shown.map(([amount, unit]) => `${amount}${unit}`).join(" ");
}

/** "310 ms", "1.24 s" */
export const milliseconds = (value) => (value === null || value === undefined ? "–" : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`);

/** "14:03:12" */
export const clock = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** "18 Nov, 14:03" */
export const day = (time) => new Date(time).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });

/** "just now", "4m ago" */
export function ago(time, now = Date.now()) {
  const seconds = (now - new Date(time).getTime()) / 1000;
  if (seconds < 10) return "just now";
  if (seconds < 86400 * 2) return `${duration(seconds).split(" ")[0]} ago`;
  return day(time);
}

/** Any value as text: what is text stays as it is, all else is JSON. */
export const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

const trimmed = (text) => (text.includes("e") ? text : text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text).replace("-", "−");
