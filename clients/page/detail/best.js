// What the best candidate changes of the baseline, short, for the overview.

import { h, replace, say } from "../dom.js";
import { linkTo } from "../router.js";
import { changesView } from "./diff.js";
import { reading } from "./reading.js";

export function mount(element, { run, api, subscribe }) {
  const body = h("div", { class: "best-changes" });
  const links = h("p", { class: "card-links" });
  const heading = h("h2", {}, "What the best changes");
  replace(element, heading, body, links);
  let shown = null;
  let giveUp = () => {};

  function draw() {
    const { baseline_candidate_id: baseline, headline: { outcome } } = run.detail, best = run.winner;
    const state = `${outcome} ${best}`;
    if (state === shown) return;
    shown = state;
    say(heading, outcome === "unproven" ? "What the unproven candidate would change" : "What the best changes");
    giveUp();
    replace(links);
    if (!best || best === baseline) {
      const told = !baseline ? "The baseline is being measured." : run.isOver
        ? "Nothing was better than the baseline: it stays as it is."
        : "Nothing is better than the baseline yet.";
      replace(body, h("p", { class: "soft" }, told));
      return;
    }
    const ask = (signal) => api.get(api.ofRun(run.id, "candidates", best), { signal });
    giveUp = reading(body, ask, (candidate) => {
      replace(body, changesView(candidate.baseline.changes, { from: "the baseline", to: "the candidate" }));
      const to = (tab) => linkTo(["runs", run.id, "candidates", best], { tab });
      replace(links, h("a", { href: to("changes") }, "All changes"), h("a", { href: to("samples") }, "What was fixed and broken"));
    });
  }

  const unsubscribe = subscribe((changed) => changed.has("detail") && draw());
  draw();
  return () => {
    unsubscribe();
    giveUp();
  };
}
