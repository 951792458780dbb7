// A run's status as a pill: one word, and a colour that repeats it.

import { h } from "../dom.js";

const KIND = { running: "accent", initialized: "accent", paused: "warn", completed: "good", failed: "bad", cancelled: "warn", terminated: "bad" };

/** What a run waits for, in words; nothing while it does not. */
export function waitsOf({ waits_for: queues = [] }) {
  if (!queues.length) return "";
  return queues.length === 1 ? `waits for a worker on task queue ${queues[0]}` : `waits for workers on task queues ${queues.join(", ")}`;
}

export function statusPill(run) {
  const { status, execution } = run;
  const waits = waitsOf(run);
  if (waits) return h("span", { class: "pill status", "data-kind": "warn", title: waits }, status === "paused" ? "paused, no worker" : "no worker");
  const ended = execution === "closed" && ["running", "paused", "initialized"].includes(status);
  const alive = status === "running" && !ended;
  return h("span", { class: `pill status${alive ? " alive" : ""}`, "data-kind": ended ? "bad" : KIND[status] },
    alive ? h("span", { class: "dot", "aria-hidden": "true" }) : null, ended ? "ended from outside" : status === "initialized" ? "starting" : status);
}
