// What proposers were asked and answered, round by round, and what became of it.

import { proposalView } from "../detail/proposal.js";
import { reading } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";
import { whole } from "../format.js";
import { linkTo } from "../router.js";

const PAGE = 10;

export function mount(element, { run, api, subscribe, navigate, announce, options: given }) {
  const steps = ["runs", run.id, "proposals"];
  let options = given;
  let giveUp = () => {};
  let known = -1;
  const round = h("select", { id: "proposal-round", onchange: () => go({ round: round.value, page: null }) });
  const told = h("p", { class: "told", role: "status" });
  const list = h("div", { class: "proposals" });
  const pager = h("nav", { class: "pager", "aria-label": "Pages of requests", hidden: true });
  replace(element, h("h2", { class: "unseen" }, "What proposers were asked"),
    h("div", { class: "filters" }, h("div", {}, h("label", { for: round.id }, "Round"), round), told), list, pager);

  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });
  const link = (id) => h("a", { href: linkTo(["runs", run.id, "candidates", id]) }, id === run.detail.baseline_candidate_id ? "the baseline" : run.trial(id)?.number ? `#${run.trial(id).number} ${id}` : id);

  function offer() {
    if (known === run.detail.round) return;
    known = run.detail.round;
    const rounds = Array.from({ length: Math.max(known, Number(options.get("round")) || 0) }, (_, number) => number + 1);
    replace(round, h("option", { value: "" }, "all"), rounds.map((number) => h("option", { value: String(number) }, String(number))));
    round.value = options.get("round") ?? "";
  }

  function load() {
    giveUp();
    round.value = options.get("round") ?? "";
    const page = Math.max(Number.parseInt(options.get("page") ?? "1", 10) || 1, 1);
    const query = { round: options.get("round"), offset: (page - 1) * PAGE, limit: PAGE };
    giveUp = reading(list, (signal) => api.get(api.ofRun(run.id, "proposals"), { query, signal }), (found) => {
      const pages = Math.max(1, Math.ceil(found.total / PAGE));
      if (page > pages) return go({ page: null });
      say(told, `${whole(found.total)} request${found.total === 1 ? "" : "s"}`);
      replace(list, found.items.length ? found.items.map((place) => proposalView(run, place, { link })) : h("div", { class: "card empty" },
        h("strong", {}, "Nobody was asked here"), "What models, activities and plug-ins are asked for new values appears here with what they answered. Values that an optimizer computes by itself are in Trials."));
      pager.hidden = pages < 2;
      replace(pager,
        h("button", { type: "button", disabled: page === 1, onclick: () => go({ page: page === 2 ? null : page - 1 }) }, "Previous"),
        h("span", { class: "soft" }, `Page ${whole(page)} of ${whole(pages)}`),
        h("button", { type: "button", disabled: page === pages, onclick: () => go({ page: page + 1 }) }, "Next"));
      if (page > 1) announce(`Page ${page} of ${pages}`);
      return undefined;
    });
  }

  offer();
  load();
  const unsubscribe = subscribe((changed) => {
    if (!changed.has("rounds")) return;
    offer();
    if (!list.querySelector("details[open]")) load(); // nobody's reading is taken away
  });
  return {
    go: (now) => ((options = now), load()),
    unmount: () => (unsubscribe(), giveUp()),
  };
}
