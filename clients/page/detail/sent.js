// The messages behind an answer, made again from configuration and sample when somebody wants to read them.

import { h, replace } from "../dom.js";
import { plain } from "../format.js";
import { messagesView } from "./proposal.js";
import { reading } from "./reading.js";
import { block } from "./text_block.js";

/** Closed at first; `ask(signal)` is asked once it is opened. */
export function sentView(ask) {
  const place = h("div", {});
  const shown = h("details", { class: "asked-of" }, h("summary", {}, "What was sent"), place);
  shown.addEventListener("toggle", () => {
    if (shown.open && !place.hasChildNodes()) reading(place, ask, (found) => replace(place, partsOf(found)));
  });
  return shown;
}

function partsOf(found) {
  return [targetParts(found), found.judges.map((judge) => [
    h("h5", {}, `Sent to the judge of ${judge.name}`),
    judge.exact ? null : h("p", { class: "soft small" }, "With files by their names, or with all of an answer of which it saw a part."),
    requestView(judge),
  ])];
}

function targetParts(found) {
  if (!found.known) return h("p", { class: "soft" }, "It was asked by code, a service or an activity: what that told of its way is the trace.");
  return [
    found.exact ? null : h("p", { class: "soft small" }, "The beginning, or with files by their names: turns that follow are in the trace."),
    found.requests.map((request) => [found.requests.length > 1 || request.name !== "answer" ? h("h5", {}, request.name) : null, requestView(request)]),
  ];
}

const requestView = (request) => h("section", { class: "sent-request" },
  request.model ? h("p", { class: "soft small" }, request.model) : null,
  request.problem ? h("p", { class: "problem" }, request.problem) : messagesView(request.messages),
  Object.keys(request.parameters).length ? block("Parameters", plain(request.parameters)) : null);
