// A run's status as a pill: one word, and a colour that repeats it.

import { h } from "../dom.js";
import { cost, whole } from "../format.js";

const KIND = { running: "accent", initialized: "accent", paused: "warn", completed: "good", failed: "bad", cancelled: "warn", terminated: "bad" };

/** What a run waits for, in words; nothing while it does not. */
export function waitsOf({ waits_for: queues = [], waits_for_team: month = null }) {
  if (!queues.length) return month ? monthOf(month) : "";
  return queues.length === 1 ? `waits for a worker on task queue ${queues[0]}` : `waits for workers on task queues ${queues.join(", ")}`;
}

/** The month of its team that covers no call now, until other runs give back what they hold, or somebody gives it more. */
function monthOf({ team, month, resource, limit, left }) {
  const rest = resource === "cost" ? `${cost(left)} of ${cost(limit)}` : `${whole(left)} of ${whole(limit)} ${resource === "samples" ? "calls" : "tokens"}`;
  return `waits for the month ${month} of team ${team}: ${rest} left`;
}

export function statusPill(run) {
  const { status, execution } = run;
  const waits = waitsOf(run);
  const missing = run.waits_for?.length ? "no worker" : "no budget";
  if (waits) return h("span", { class: "pill status", "data-kind": "warn", title: waits }, status === "paused" ? `paused, ${missing}` : missing);
  const ended = execution === "closed" && ["running", "paused", "initialized"].includes(status);
  const alive = status === "running" && !ended;
  return h("span", { class: `pill status${alive ? " alive" : ""}`, "data-kind": ended ? "bad" : KIND[status] },
    alive ? h("span", { class: "dot", "aria-hidden": "true" }) : null, ended ? "ended from outside" : status === "initialized" ? "starting" : status);
}
