// One sample with what both sides answered, side by side.

import { h } from "../dom.js";
import { cost, milliseconds, plain, score, whole } from "../format.js";
import { isLive } from "../source.js";
import { imagesOf } from "./images.js";
import { sentView } from "./sent.js";
import { block } from "./text_block.js";
import { traceView } from "./trace.js";
import { turnsOf } from "./turns.js";

/**
 * Input and expected answer above, both answers beside each other below. `sent(side, answer, item, signal)` asks for the messages
 * that an answer was sent for.
 */
export function answersOf(sample, names, marksOf = null, sent = null) {
  const said = (side) => (answer) => [
    sent && isLive ? sentView((signal) => sent(side, answer, sample.item_id, signal)) : null,
    marksOf?.(side, answer, sample.item_id) ?? null,
  ];
  return [
    h("div", { class: "asked" },
      block("Input", readable(sample.input)),
      imagesOf(sample.input, "Input"),
      sample.expected === null ? null : block("Expected", readable(sample.expected)),
    ),
    sample.tags.length ? h("p", { class: "tags" }, h("span", { class: "soft" }, "Tags: "), sample.tags.map((tag) => h("span", { class: "pill" }, tag))) : null,
    h("div", { class: "sides" },
      side(names.before, sample.baseline_answers, sample.baseline_score, said("before")),
      side(names.after, sample.candidate_answers, sample.candidate_score, said("after")),
    ),
  ];
}

function side(name, answers, mean, said) {
  return h("section", { class: "side" },
    h("h4", {}, name, " ", h("span", { class: "soft number" }, score(mean))),
    answers.length ? answers.map((answer) => answerOf(answer, answers.length > 1, said(answer))) : h("p", { class: "soft" }, "No answer."),
  );
}

function answerOf(answer, several, said) {
  const passed = answer.status !== "answered" ? answer.status : answer.passed ? "passed" : "did not pass";
  const facts = [
    several ? `replicate ${answer.replicate + 1}` : null,
    answer.tokens ? `${whole(answer.tokens)} tokens${answer.cached_tokens ? ` (${whole(answer.cached_tokens)} from a cache)` : ""}` : null,
    answer.cost ? `cost ${cost(answer.cost)}` : null,
    answer.latency_ms === null ? null : milliseconds(answer.latency_ms),
  ].filter(Boolean);
  const scores = Object.entries(answer.scores);
  return h("article", { class: "answer" },
    h("p", { class: "answer-head" },
      h("span", { class: "pill", "data-kind": answer.passed ? "good" : "bad" }, passed),
      " ", h("span", { class: "soft" }, facts.join(" · ")),
    ),
    answer.error ? h("p", { class: "problem" }, answer.error) : null,
    answer.texts_removed ? h("p", { class: "soft" }, "Its text was removed by a policy.") : null,
    answer.output === null ? null : block("Output", readable(answer.output)),
    answer.feedback && !scores.some(([name]) => answer.score_details[name]?.reason === answer.feedback) ? block("Feedback", answer.feedback) : null,
    answer.printed ? block("Printed", answer.printed) : null,
    scores.length ? h("dl", { class: "scores" }, scores.map(([name, value]) => scoreOf(name, value, answer.score_details[name]))) : null,
    turnsOf(answer.trace) ?? traceView(answer.trace),
    said,
  );
}

function scoreOf(name, value, details) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "number" }, score(value)), details?.reason ? h("span", { class: "soft" }, ` ${details.reason}`) : null));
}

/** Text as it is; an object with one text in it as that text, named; all else as JSON. */
export function readable(value) {
  const fields = value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  if (fields.length && fields.every(([, field]) => typeof field === "string")) {
    return fields.length === 1 ? fields[0][1] : fields.map(([name, text]) => `${name}: ${text}`).join("\n");
  }
  return plain(value);
}
