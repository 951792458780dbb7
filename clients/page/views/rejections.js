// Proposals that were kept out before anything was spent on them, and why.

import { roomyLayout } from "../detail/controls.js";
import { changesView } from "../detail/diff.js";
import { reading } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";
import { capital, whole, words } from "../format.js";
import { linkTo } from "../router.js";
import { compared, virtualTable } from "./virtual_table.js";

const MEANING = {
  duplicate: "the same configuration was tried before",
  no_change: "nothing differs from the parent",
  frozen_factor_changed: "it changes what must stay",
  out_of_range: "a value is outside of its range",
  placeholder_lost: "a placeholder of the baseline is gone",
  too_long: "a text is longer than allowed",
  empty_value: "a text is empty",
  invalid_shape: "a value has the wrong shape",
  missing_factor: "a factor is missing",
  unknown_factor: "it names a factor that there is not",
  unknown_parent: "it names a parent that there is not",
  proposal_failed: "the proposer failed, and went on failing when it was asked again",
  not_smaller: "it is not shorter than what it is to replace",
  stale_base: "what it builds on has changed",
  budget: "the budget does not cover it",
};

export function mount(element, { run, api, subscribe, navigate, options: given }) {
  const steps = ["runs", run.id, "rejections"];
  let options = given;
  let giveUp = () => {};
  const opened = h("section", { class: "card rejected", hidden: true, tabindex: "-1", "aria-label": "The rejected proposal" });
  const search = h("input", { id: "rejection-search", type: "search", placeholder: "message, parent…", oninput: () => update() });
  const reason = h("select", { id: "rejection-reason", onchange: () => update() });
  const told = h("p", { class: "told", role: "status" });
  const meaning = h("p", { class: "soft small" });
  let order = { column: null, descending: false };
  const table = virtualTable({
    label: "Rejected proposals",
    columns: [
      { key: "round", title: "Round", width: 82, number: true, sort: (one) => one.round, cell: (one) => h("a", { href: linkTo(steps, at(one)), "aria-label": `Round ${one.round}, proposal ${one.proposed_index + 1}` }, String(one.round)) },
      { key: "index", title: "Proposal", width: 96, number: true, sort: (one) => one.proposed_index, cell: (one) => whole(one.proposed_index + 1), from: 640 },
      { key: "reason", title: "Reason", width: 176, sort: (one) => one.reason_code, cell: (one) => h("span", { class: "pill", "data-kind": "bad" }, words(one.reason_code)) },
      { key: "message", title: "What is wrong", cell: (one) => h("span", { title: one.message }, one.message), from: 420 },
      { key: "parents", title: "From", width: 220, cell: (one) => one.parent_candidate_ids.map((id) => h("a", { class: "mono", href: linkTo(["runs", run.id, "candidates", id]) }, id, " ")), from: 760 },
    ],
    onsort(column, descending) {
      order = { column, descending };
      update();
    },
    onopen: (one) => navigate(steps, at(one)),
  });
  replace(element,
    h("h2", { class: "unseen" }, "Rejected proposals"),
    h("div", { class: "filters" },
      h("div", { class: "wide" }, h("label", { for: "rejection-search" }, "Search"), search),
      h("div", {}, h("label", { for: "rejection-reason" }, "Reason"), reason),
      told,
    ),
    meaning,
    opened,
    table.element,
  );
  const nothing = h("div", { class: "card empty" }, h("strong", {}, "Nothing was rejected"), "Proposals that cannot be valid are kept out before anything is spent on them; they are listed here.");
  element.append(nothing);
  if (options.get("reason")) offer(options.get("reason"));

  function at(one) {
    return { reason: reason.value, at: `${one.round}/${one.proposed_index}` };
  }

  /** The proposal that the address names, with what it would have changed. */
  function show() {
    giveUp();
    const [round, index] = (options.get("at") ?? "").split("/").map((part) => Number.parseInt(part, 10));
    opened.hidden = !Number.isInteger(round) || !Number.isInteger(index);
    if (opened.hidden) return;
    giveUp = reading(opened, (signal) => api.get(api.ofRun(run.id, "rejections", round, index), { signal }), (found) => {
      const against = found.against === run.detail.baseline_candidate_id ? "the baseline" : found.against ?? "the baseline";
      replace(opened,
        h("div", { class: "card-head" }, h("h3", {}, `Round ${round}, proposal ${whole(index + 1)}`),
          h("div", { class: "tools" }, h("a", { href: linkTo(["runs", run.id, "proposals"], { round }) }, "What was asked in this round"), h("button", { type: "button", onclick: () => navigate(steps, { reason: reason.value }) }, "Close"))),
        h("p", {}, h("span", { class: "pill", "data-kind": "bad" }, words(found.reason_code)), " ", found.message),
        found.rationale ? h("p", { class: "rationale" }, found.rationale) : null,
        found.known ? changesView(found.changes, { layout: roomyLayout(), from: against, to: "this proposal", heading: "h4" })
          : h("p", { class: "soft" }, "Its text is not kept: of what people propose themselves, what an optimizer computed, and what was proposed before texts were kept."),
      );
      opened.focus({ preventScroll: true });
    });
  }

  function offer(value) {
    const counts = new Map();
    for (const one of run.rejections) counts.set(one.reason_code, (counts.get(one.reason_code) ?? 0) + 1);
    const sorted = [...counts].sort((one, other) => other[1] - one[1]);
    replace(reason, h("option", { value: "" }, "all"), sorted.map(([code, count]) => h("option", { value: code }, `${words(code)} (${whole(count)})`)));
    reason.value = counts.has(value) ? value : "";
  }

  function update() {
    offer(reason.value);
    const text = search.value.trim().toLowerCase();
    const shown = run.rejections.filter((one) => (!reason.value || one.reason_code === reason.value)
      && (!text || one.message.toLowerCase().includes(text) || one.parent_candidate_ids.some((id) => id.includes(text))));
    if (order.column) shown.sort((one, other) => compared(order.column.sort(one), order.column.sort(other), order.descending));
    table.show(shown);
    const some = run.rejections.length > 0;
    table.element.hidden = !some;
    nothing.hidden = some;
    element.querySelector(".filters").hidden = !some;
    say(told, `${whole(shown.length)} of ${whole(run.rejections.length)} rejected proposals`);
    say(meaning, reason.value && MEANING[reason.value] ? `${capital(words(reason.value))}: ${MEANING[reason.value]}.` : "");
  }

  update();
  show();
  const unsubscribe = subscribe((changed) => {
    if (changed.has("rejections")) update();
  });
  return {
    go: (now) => ((options = now), show()),
    unmount() {
      unsubscribe();
      giveUp();
      table.close();
    },
  };
}
