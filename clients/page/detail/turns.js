// The turns of an agent as a tree: what it said, and below that what it called and what came of it.

import { h } from "../dom.js";
import { milliseconds, plain, whole } from "../format.js";

const LONGEST = 2_000; // characters of one text that are drawn

/** A tree that opens, or nothing where a trace has no turns. */
export function turnsOf(trace) {
  const turns = Array.isArray(trace?.turns) ? trace.turns.filter((turn) => turn !== null && typeof turn === "object") : [];
  if (!turns.length) return null;
  const calls = turns.reduce((count, turn) => count + callsOf(turn).length, 0);
  const ended = typeof trace.ended === "string" && trace.ended !== "answered" ? `, ended by ${trace.ended}` : "";
  return h("details", { class: "turns" },
    h("summary", {}, `${counted(turns.length, "turn")}, ${counted(calls, "call")} of tools${ended}`),
    h("ol", { class: "tree" }, turns.map(turnOf)),
  );
}

const counted = (count, what) => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;

const callsOf = (turn) => (Array.isArray(turn.calls) ? turn.calls.filter((call) => call !== null && typeof call === "object") : []);

function turnOf(turn) {
  const cached = turn.cached_tokens ? ` (${whole(turn.cached_tokens)} from a cache)` : "";
  const facts = [turn.tokens ? `${whole(turn.tokens)} tokens${cached}` : null, typeof turn.latency_ms === "number" ? milliseconds(turn.latency_ms) : null];
  const calls = callsOf(turn);
  return h("li", {},
    h("span", { class: "soft" }, ["user" in turn ? "user" : "model", ...facts.filter(Boolean)].join(" · ")),
    said("user" in turn ? turn.user : turn.said),
    calls.length ? h("ul", {}, calls.map(callOf)) : null,
  );
}

function callOf(call) {
  const failed = "error" in call;
  const outcome = failed ? call.error : "result" in call ? call.result : "not called";
  return h("li", {}, h("code", {}, `${shown(call.tool)} ${shown(call.arguments ?? {})}`), h("pre", { class: failed ? "problem" : null, tabindex: "0", role: "group", "aria-label": "Result" }, shown(outcome)));
}

const said = (text) => (text === null || text === undefined || text === "" ? null : h("p", {}, shown(text)));

function shown(value) {
  const text = typeof value === "string" ? value : plain(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
