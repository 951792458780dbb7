// What a target kept of how it came to an answer: steps one after the other where it tells any, else as it is.

import { h } from "../dom.js";
import { cost, milliseconds, plain, whole } from "../format.js";

const LISTS = ["steps", "messages", "calls", "spans", "children", "tool_calls"]; // where steps may be, in traces of ours and of others
const TITLES = ["name", "role", "tool", "type", "function"];
const TEXTS = ["output", "content", "result", "text", "error"];
const DEEPEST = 5;
const MOST_STEPS = 200;
const LONGEST = 20_000; // characters of one text that are drawn at once

/** A trace, closed at first; null where there is none, or it says no more than the answer does. */
export function traceView(trace) {
  if (trace === null || trace === undefined) return null;
  const steps = stepsOf(trace);
  const title = steps ? `Trace: ${whole(steps.length)} step${steps.length === 1 ? "" : "s"}` : "Trace";
  return h("details", { class: "trace" }, h("summary", {}, title), steps ? listOf(steps, 0) : textOf(plain(trace), "Trace"), steps && !Array.isArray(trace) ? restOf(trace, LISTS) : null);
}

function stepsOf(value) {
  const list = Array.isArray(value) ? value : isObject(value) ? LISTS.map((name) => value[name]).find((one) => Array.isArray(one)) : null;
  return list?.length && list.every(isObject) ? list : null;
}

function listOf(steps, depth) {
  const slowest = Math.max(0, ...steps.map((step) => (typeof step.latency_ms === "number" ? step.latency_ms : 0)));
  return [
    h("ol", { class: "trace-steps" }, steps.slice(0, MOST_STEPS).map((step, place) => stepOf(step, place, depth, slowest))),
    steps.length > MOST_STEPS ? h("p", { class: "soft" }, `${whole(steps.length - MOST_STEPS)} more steps; the API has them all.`) : null,
  ];
}

function stepOf(step, place, depth, slowest) {
  const named = TITLES.find((name) => typeof step[name] === "string" && step[name]);
  const told = TEXTS.filter((name) => step[name] !== null && step[name] !== undefined && step[name] !== "");
  const inner = depth < DEEPEST ? stepsOf(step) : null;
  const number = (name) => (typeof step[name] === "number" ? step[name] : null);
  const facts = [
    typeof step.model === "string" ? step.model : null,
    number("tokens") ? `${whole(step.tokens)} tokens` : null,
    number("cost") ? `cost ${cost(step.cost)}` : null,
    number("latency_ms") === null ? null : milliseconds(step.latency_ms),
    typeof step.finish_reason === "string" && step.finish_reason !== "stop" ? step.finish_reason : null,
  ].filter(Boolean);
  const known = new Set([named, ...told, ...(inner ? LISTS : []), ...(typeof step.model === "string" ? ["model"] : []), "tokens", "cost", "latency_ms", "finish_reason"]);
  const bar = h("span", {});
  if (slowest && number("latency_ms") !== null) bar.style.width = `${Math.max(1, (100 * step.latency_ms) / slowest)}%`;
  return h("li", {},
    h("p", { class: "trace-head" }, h("strong", {}, named ? step[named] : `Step ${place + 1}`), " ", h("span", { class: "soft small" }, facts.join(" · "))),
    slowest && number("latency_ms") !== null ? h("div", { class: "bar", "aria-hidden": "true" }, bar) : null,
    told.map((name) => textOf(plain(step[name]), `${named ? step[named] : `Step ${place + 1}`}: ${name}`)),
    inner ? listOf(inner, depth + 1) : null,
    restOf(step, known));
}

/** What else is told, as it is. */
function restOf(value, known) {
  const left = Object.entries(value).filter(([name, part]) => ![...known].includes(name) && part !== null);
  return left.length ? textOf(plain(Object.fromEntries(left)), "More") : null;
}

function textOf(text, name) {
  return h("pre", { tabindex: "0", role: "group", "aria-label": name }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
