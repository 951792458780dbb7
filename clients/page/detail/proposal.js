// One request for new values: what the proposer was asked, what it answered, and what became of it.

import { h } from "../dom.js";
import { capital, cost, plain, whole } from "../format.js";
import { linkTo } from "../router.js";
import { block } from "./text_block.js";

/** `link(candidate)` is a link to a candidate; `open` says whether what was asked is there to be read at once. */
export function proposalView(run, place, { link, open = false }) {
  const facts = [
    place.asked_of,
    place.calls.length ? `${whole(place.calls.length)} answer${place.calls.length === 1 ? "" : "s"}` : null,
    place.tokens ? `${whole(place.tokens)} tokens` : null,
    place.cost ? `cost ${cost(place.cost)}` : null,
  ].filter(Boolean);
  return h("article", { class: "card proposal" },
    h("h3", {}, `Round ${place.round}, request ${whole(place.index + 1)}`),
    h("p", { class: "soft small" }, facts.join(" · ")),
    h("p", { class: "lineage" }, place.parent_candidate_id ? [h("span", { class: "soft" }, "From "), link(place.parent_candidate_id), " "] : null, h("span", { class: "soft" }, "came "), outcome(run, place, link)),
    place.rationale ? h("p", { class: "rationale" }, place.rationale) : null,
    Object.entries(place.values ?? {}).map(([factor, value]) => block(factor, typeof value === "string" ? value : plain(value))),
    place.asked === null ? null : askedOf("Called with", place.asked, open),
    place.calls.map((call, number) => callView(call, number, place.calls.length, open)),
    place.asked === null && !place.calls.length ? h("p", { class: "soft" }, "What was asked is not kept here: an earlier run was answered this, it was written before such requests were kept, or a policy removed it.") : null,
  );
}

function outcome(run, place, link) {
  const found = [
    ...place.candidate_ids.map((id) => link(id)),
    ...place.rejected.map((index) => h("a", { href: linkTo(["runs", run.id, "rejections"], { at: `${place.round}/${index}` }) }, "a rejected proposal")),
  ];
  if (!found.length) return h("span", {}, place.values === null ? "nothing that could be used" : "a part of other proposals");
  return found.flatMap((one, number) => (number ? [", ", one] : [one]));
}

function callView(call, number, count, open) {
  const which = count > 1 ? `, try ${number + 1}` : "";
  return h("section", { class: "proposer-call" },
    call.asked === null ? h("p", { class: "soft" }, call.texts_removed ? "What was asked and answered was removed by a policy." : "What was asked was not kept.") : askedOf(`Asked${which}`, call.asked, open),
    call.answer ? block(`Answered${which}${call.cut_off ? " (cut off)" : ""}`, call.answer) : null,
  );
}

/** Messages one by one, anything else as it is. */
function askedOf(title, asked, open) {
  const messages = Array.isArray(asked) && asked.every((one) => one !== null && typeof one === "object" && "role" in one) ? asked : null;
  return h("details", { class: "asked-of", open },
    h("summary", {}, messages ? `${title}: ${whole(messages.length)} message${messages.length === 1 ? "" : "s"}` : title),
    messages ? messagesView(messages) : block("As JSON", typeof asked === "string" ? asked : plain(asked)));
}

/** Messages as a chat: who said what. */
export function messagesView(messages) {
  return messages.map((message) => {
    const { role, content, ...rest } = message;
    return [
      block(capital(String(role)), typeof content === "string" ? content : plain(content ?? null)),
      Object.keys(rest).length ? block("Beside it", plain(rest)) : null,
    ];
  });
}
