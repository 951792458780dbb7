// The head of a run: what it is, where it stands, what it has spent, and what may be asked of it.

import { secondsLeft } from "../detail/budgets.js";
import { h, replace, say } from "../dom.js";
import { compact, cost, duration, score, share, signed, whole, words } from "../format.js";
import { linkTo } from "../router.js";
import { marksBar } from "../marks/bar.js";
import { isLive, report } from "../source.js";
import { connectionChip } from "./connection.js";
import * as controls from "./controls.js";
import { statusPill, waitsOf } from "./status.js";

/** `tell(kind, text)` shows what was answered to a wish. */
export function mount(element, context, tell) {
  const { run, subscribe } = context;
  const pill = h("span", {});
  const facts = h("div", { class: "facts soft" });
  let told = "";
  const chip = connectionChip(() => run.reconnect());
  const buttons = h("div", { class: "buttons" });
  const cards = h("div", { class: "kpis" });
  const heading = h("h1", { tabindex: "-1" }, run.detail.name);
  replace(element,
    h("div", { class: "head-line" },
      h("div", { class: "head-words" },
        h("nav", { class: "crumbs small", "aria-label": "Where you are" }, isLive || !report.run_id || report.home ? [h("a", { href: linkTo(["runs"]) }, "Runs"), h("span", { "aria-hidden": "true" }, " / ")] : null, h("span", { class: "mono soft" }, run.id)),
        h("div", { class: "title" }, heading, pill, chip.element),
        facts,
        marksBar(context.marks, {}, "the run")),
      buttons),
    cards,
  );
  const kpis = [result(), progress(), spend(), time(), trials()];
  replace(cards, kpis.map((kpi) => kpi.element));
  const closeControls = controls.mount(buttons, context, tell);

  function draw() {
    const { detail } = run;
    replace(pill, statusPill(detail));
    const known = [detail.direction, detail.objective_name, detail.optimizer, datasetOf(detail), detail.temporal_url].join();
    if (known !== told) replace(facts, factsOf(detail));
    told = known;
    kpis.forEach((kpi) => kpi.draw(run));
    document.title = titleOf(run);
  }

  draw();
  chip.show(run.connection, run.isOver);
  const ticking = setInterval(() => !run.isOver && kpis[3].draw(run), 1000);
  const unsubscribe = subscribe((changed) => {
    if (changed.has("detail") || changed.has("trials")) draw();
    if (changed.has("connection") || changed.has("detail")) chip.show(run.connection, run.isOver);
  });
  return () => {
    clearInterval(ticking);
    unsubscribe();
    closeControls();
    document.title = "Ratchet";
  };
}

function factsOf(detail) {
  const source = detail.spec?.retry_of;
  const parts = [
    `${detail.direction} ${detail.objective_name}`,
    `optimizer ${detail.optimizer}`,
    datasetOf(detail),
    source ? ["retries ", isLive ? h("a", { href: linkTo(["runs", source]) }, source) : source] : null,
    detail.temporal_url ? h("a", { href: detail.temporal_url, target: "_blank", rel: "noreferrer" }, "Temporal") : null,
  ];
  return h("ul", {}, parts.filter(Boolean).map((part) => h("li", {}, part)));
}

/** How many samples, by the name that the spec has for them. */
function datasetOf(detail) {
  return `${whole(detail.dataset_count)} samples${mergedOf(detail)} of ${detail.spec?.dataset?.name ?? detail.dataset_name}`;
}

/** Copies of a content, and the samples of a group, count once. */
function mergedOf({ dataset_count: count, dataset_merged: merged }) {
  return merged ? ` (which count as ${whole(count - merged)})` : "";
}

/** What the browser's tab says while one looks elsewhere. */
function titleOf({ detail, isOver }) {
  const stands = isOver ? detail.status : `round ${whole(detail.round)}`;
  return [detail.headline.brief, stands, detail.name].filter(Boolean).join(" · ");
}

function card(title) {
  const value = h("p", { class: "value" });
  const bar = h("div", { class: "bar", hidden: true, "aria-hidden": "true" }, h("span", {}));
  const below = h("p", { class: "soft small" });
  return {
    element: h("div", { class: "card kpi", role: "group", "aria-label": title }, h("h2", {}, title), value, bar, below),
    show(text, told, part = null, kind = "") {
      if (typeof text === "string") say(value, text);
      else replace(value, text);
      say(below, told);
      bar.hidden &&= part === null; // where there was one its room stays
      bar.toggleAttribute("data-empty", part === null);
      bar.setAttribute("data-kind", kind);
      if (part !== null) bar.firstChild.style.width = `${Math.min(100, part * 100)}%`;
    },
  };
}

/** What leads: the confirmed figure; while the run goes on, what the search has, named as such. */
function result() {
  const place = card("Result");
  return { element: place.element, draw({ detail: { headline: found } }) {
    const { in_search: search } = found;
    if (found.outcome === "open" || found.outcome === "unconfirmed") {
      if (search.best_score === null) return place.show("–", "nothing measured yet");
      const better = search.best_score !== search.baseline_score ? `baseline ${score(search.baseline_score)}, ` : "";
      return place.show([score(search.best_score), h("span", { class: "of" }, " in the search")], `${better}not confirmed${found.outcome === "open" ? " yet" : ""}`);
    }
    if (found.score === null) return place.show("–", found.words);
    if (!found.holds) return place.show(score(found.score), `the baseline: ${found.brief || "nothing else measured"}`);
    return place.show([score(found.score), h("span", { class: "delta good" }, signed(found.difference))], `confirmed ${words(found.verdict)}, baseline ${score(found.baseline_score)}`);
  } };
}

function progress() {
  const place = card("Progress");
  return { element: place.element, draw({ detail, isOver }) {
    const { round, max_rounds: most, in_flight: flight, counts } = detail;
    const rounds = most ? `Round ${whole(round)} of ${whole(most)}` : `Round ${whole(round)}`;
    if (isOver) return place.show(`${whole(round)} round${round === 1 ? "" : "s"}`, words(detail.stop_reason), null);
    const waits = waitsOf(detail);
    if (waits) return place.show(rounds, waits, null);
    if (flight.expected) return place.show(rounds, `${whole(counts.running)} in flight: ${whole(flight.answered)} of ${whole(flight.expected)} answers`, flight.answered / flight.expected);
    return place.show(rounds, detail.status === "paused" ? "paused" : "deciding and proposing", most ? round / most : null);
  } };
}

function spend() {
  const place = card("Spent");
  return { element: place.element, draw({ detail }) {
    const { spend: paid, budget } = detail;
    const cached = detail.cached_tokens ? ` (${compact(detail.cached_tokens)} from a cache)` : "";
    const told = `${compact(paid.tokens)} tokens${cached} · ${whole(paid.samples)} calls`;
    const limits = ["cost", "tokens", "samples", "trials"].filter((name) => budget[name]).map((name) => [name, paid[name] / budget[name]]);
    const [nearest, part] = limits.sort((one, other) => other[1] - one[1])[0] ?? [null, null];
    const limit = nearest && nearest !== "cost" ? ` · ${share(part)} of ${nearest}` : "";
    const kind = part > 0.95 ? "bad" : part > 0.8 ? "warn" : "";
    return place.show([cost(paid.cost), budget.cost ? h("span", { class: "of" }, ` of ${cost(budget.cost)}`) : null], told + limit, part, kind);
  } };
}

function time() {
  const place = card("Time");
  return { element: place.element, draw(run) {
    const { detail, isOver, now } = run;
    const elapsed = ((detail.finished_at ? new Date(detail.finished_at) : now) - new Date(detail.started_at)) / 1000 - (detail.stood_still_seconds ?? 0);
    const limit = detail.budget.wall_time;
    const left = secondsLeft(run);
    const told = isOver ? "from start to end" : [left !== null ? `at most ${duration(left)} left` : "", limit ? `${duration(limit)} allowed` : ""].filter(Boolean).join(" · ");
    return place.show(duration(elapsed), told || "since it started", limit ? elapsed / limit : null);
  } };
}

function trials() {
  const place = card("Trials");
  return { element: place.element, draw({ detail, trials: all, missingAnswers: missing }) {
    const { counts } = detail;
    const inPart = all.filter((trial) => trial.part && trial.status !== "running").length;
    const told = [["failed", counts.failed], [`answer${missing === 1 ? "" : "s"} missing`, missing], ["cut off", counts.stopped], ["rejected unmeasured", counts.rejected]].filter(([, count]) => count).map(([name, count]) => `${whole(count)} ${name}`);
    const measured = whole(counts.completed + counts.failed + counts.stopped);
    return place.show(inPart ? [measured, h("span", { class: "of" }, ` and ${whole(inPart)} of some samples`)] : measured, told.join(" · ") || "none failed, none rejected");
  } };
}
