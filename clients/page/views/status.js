// A run's status as a pill: one word, and a colour that repeats it.

import { h } from "../dom.js";

const KIND = { running: "accent", initialized: "accent", paused: "warn", completed: "good", failed: "bad", cancelled: "warn", terminated: "bad" };

export function statusPill({ status, execution }) {
  const ended = execution === "closed" && ["running", "paused", "initialized"].includes(status);
  const alive = status === "running" && !ended;
  return h("span", { class: `pill status${alive ? " alive" : ""}`, "data-kind": ended ? "bad" : KIND[status] },
    alive ? h("span", { class: "dot", "aria-hidden": "true" }) : null, ended ? "ended from outside" : status === "initialized" ? "starting" : status);
}
