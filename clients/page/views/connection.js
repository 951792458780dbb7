// Whether what is shown is how things stand: live, by polling, or of when.

import { h, replace } from "../dom.js";
import { clock, day } from "../format.js";

const TOLD = {
  live: ["good", "Live", "Shown as it happens"],
  connecting: ["", "Connecting", "Asking the server for live events"],
  polling: ["warn", "Polling", "There is no live stream just now: the page asks every 5 seconds instead"],
  lost: ["bad", "Not connected", "The server does not answer"],
  resting: ["", "Resting", "Nobody looked at this page for a while; it catches up by itself"],
  kept: ["", "Report", "As it was when this file was written"],
  gone: ["bad", "Gone", "The server has no such run any more"],
};

/** A chip that tells; `connection` as `run.connection`, `again` is called when somebody wants it tried now. */
export function connectionChip(again) {
  const text = h("span", {});
  const chip = h("span", { class: "pill connection", role: "status" }, h("span", { class: "dot", "aria-hidden": "true" }), text);
  const retry = h("button", { type: "button", class: "link small", onclick: again, hidden: true }, "Try now");
  const place = h("span", { class: "connection-place" }, chip, retry);
  return {
    element: place,
    /** What is over changes no more: that it is live need not be said then. */
    show({ kind, at }, isOver = false) {
      place.hidden = isOver && ["live", "connecting", "resting"].includes(kind);
      const [colour, word, meaning] = TOLD[kind];
      const stale = kind === "lost" || kind === "gone";
      chip.setAttribute("data-kind", colour);
      chip.setAttribute("data-state", kind);
      chip.classList.toggle("alive", kind === "live");
      chip.title = meaning;
      replace(text, kind === "kept" ? `${word} of ${day(at)}` : stale ? `${word} · as of ${clock(at)}` : kind === "polling" ? `${word} every 5 s` : word);
      retry.hidden = kind !== "lost" && kind !== "polling";
    },
  };
}
