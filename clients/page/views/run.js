// One run: its head, and below it the part that the address names.

import * as best from "../detail/best.js";
import * as burndown from "../detail/burndown.js";
import * as firstLook from "../detail/first_look.js";
import * as removed from "../detail/removed.js";
import * as pareto from "../detail/pareto.js";
import { h, replace, say } from "../dom.js";
import { whole } from "../format.js";
import { lazy } from "../lazy_view.js";
import { linkTo } from "../router.js";
import { marksOfRun } from "../marks/of_run.js";
import { openRun } from "../run.js";
import { isLive } from "../source.js";
import { forgetDraftOf } from "../start/draft.js";
import * as figures from "./figures.js";
import * as log from "./log.js";
import * as head from "./run_head.js";
import * as scoreChart from "./score_chart.js";
import * as spec from "./spec.js";
import * as trials from "./trials.js";
import * as verdict from "./verdict.js";

const triedFactors = lazy(() => import("../detail/factors.js"));

/** Whether a run has values to show beside its texts. */
const hasFactors = (run) => Object.values(run.detail.spec?.configuration ?? {}).some((factor) => factor !== null && typeof factor === "object" && factor.change === "structured");

const LOOK_EVERY = 2000; // at a run that has not begun

const inCard = (part) => ({ mount: (body, context) => part.mount(body.appendChild(h("section", { class: "card" })), context) });

/** What can be shown of a run, by the address's third step. */
const PARTS = {
  "": { title: "Overview", mount: overview },
  trials: { title: "Trials", count: (run) => run.searching.length, ...trials },
  matrix: { title: "Matrix", hidden: !isLive, ...lazy(() => import("./matrix.js")) },
  labels: { title: "Labels", hidden: !isLive, ...lazy(() => import("../labels/screen.js")) },
  lineage: { title: "Lineage", ...inCard(lazy(() => import("./lineage.js"))) },
  proposals: { title: "Proposals", ...lazy(() => import("./proposals.js")) },
  rejections: { title: "Rejections", count: (run) => run.rejections.length, ...lazy(() => import("./rejections.js")) },
  budget: { title: "Budget", ...inCard(burndown) },
  compare: { title: "Compare", hidden: !isLive, ...lazy(() => import("../detail/compare.js")) },
  log: { title: "Log", ...inCard(log) },
  spec: { title: "Spec", ...spec },
  candidates: { hidden: true, ...lazy(() => import("../detail/candidate.js")) },
};

export function mount(element, { api, navigate, announce, params, rest, options }) {
  let run = null, marks = null;
  let place = { rest, options };
  let shown = null;
  let closed = false;
  const closing = [];
  const noticePlace = h("div", { class: "notices", role: "status" });
  const headPlace = h("header", { class: "run-head" });
  const links = Object.entries(PARTS).filter(([, part]) => !part.hidden).map(([name, part]) => {
    const count = h("span", { class: "count" });
    const link = h("a", { href: linkTo(["runs", params.id, ...(name ? [name] : [])]) }, part.title, part.count ? [" ", count] : null);
    return { name, part, link, count };
  });
  const tabs = h("nav", { class: "tabs", "aria-label": "Of this run" }, links.map(({ link }) => link));
  const body = h("div", { class: "run-body", tabindex: "-1" });
  const view = h("div", { class: "run-view" }, headPlace, noticePlace, tabs, body);

  function tell(kind, text) {
    const notice = h("div", { class: "notice", "data-kind": kind }, text);
    replace(noticePlace, notice);
    setTimeout(() => notice.remove(), 12_000);
  }

  const contextFor = (more = {}) => ({ run, api, marks, navigate, announce, options: place.options, subscribe: (listener) => run.subscribe(listener), params: { id: params.id, ...more } });

  function show() {
    const [name = "", ...more] = place.rest;
    const key = place.rest.join("/");
    markTab(name);
    view.dataset.part = name;
    if (shown?.key === key) return shown.go?.(place.options);
    shown?.unmount();
    replace(body);
    const handle = (PARTS[name] ?? PARTS[""]).mount(body, contextFor({ candidate: more[0] ?? null }), tell);
    const isFirst = shown === null;
    shown = typeof handle === "function" ? { key, unmount: handle } : { key, ...handle };
    if (isFirst) return undefined;
    if (!tabs.contains(document.activeElement)) body.focus({ preventScroll: true });
    if (tabs.getBoundingClientRect().top < 0) tabs.scrollIntoView();
    return undefined;
  }

  function markTab(current) {
    for (const { name, link } of links) {
      if (name === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  function countTabs() {
    for (const { part, count } of links) if (part.count) say(count, part.count(run) ? whole(part.count(run)) : "");
  }

  async function open() {
    replace(element, h("h1", { class: "unseen" }, params.id), h("div", { class: "kpis" }, Array.from({ length: 5 }, () => h("div", { class: "card skeleton kpi" }))), h("div", { class: "card skeleton tall" }));
    try {
      run = await openRun(params.id);
    } catch (error) {
      if (!closed) notShown(error);
      return;
    }
    if (!closed && run.hasNotBegun) {
      const { detail } = run;
      run.close();
      run = null;
      return standing(detail);
    }
    if (closed) {
      run.close();
      return;
    }
    forgetDraftOf(run.id);
    marks = marksOfRun(run, api);
    replace(element, view);
    closing.push(head.mount(headPlace, contextFor(), tell));
    closing.push(run.subscribe((changed) => (changed.has("trials") || changed.has("rejections")) && countTabs()));
    countTabs();
    show();
  }

  function notShown({ message }) {
    replace(element, h("div", { class: "card empty" }, h("h1", {}, "This run cannot be shown"), h("p", { class: "problem", role: "alert" }, message),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: open }, "Try again"), h("a", { href: linkTo(["runs"]) }, "All runs"))));
  }

  /** Of a run that only Temporal knows. */
  function standing(detail) {
    if (detail.status === "initialized") return notBegun(detail);
    return detail.status === "failed" ? refused(detail) : notShown(detail);
  }

  /** It was refused while it was prepared, so there is nothing of it but its spec. */
  function refused({ message }) {
    replace(element, h("div", { class: "card empty" }, h("h1", {}, "This run was refused"), h("p", { class: "problem", role: "alert" }, message),
      h("p", { class: "soft" }, "No answer was asked for, so nothing was paid."),
      h("div", { class: "buttons" }, h("a", { class: "button primary", href: linkTo(["new"], { again: params.id }) }, "Change the spec"), h("a", { href: linkTo(["runs"]) }, "All runs"))));
  }

  /** It is shown as soon as it begins, or is refused. */
  function notBegun({ message }) {
    const told = h("p", { role: "status" }, message);
    replace(element, h("div", { class: "card empty" }, h("h1", {}, params.id), told, h("p", { class: "soft" }, "It appears here by itself."),
      h("div", { class: "buttons" }, h("a", { href: linkTo(["runs"]) }, "All runs"))));
    setTimeout(async function look() {
      if (closed) return undefined;
      const known = await api.get(api.ofRun(params.id), { query: { spec: false } }).catch((problem) => (problem.status === 404 ? { problem } : null));
      if (closed) return undefined;
      if (known?.problem) return notShown(known.problem);
      if (known?.last_event_id) return open();
      if (known && known.status !== "initialized") return standing(known);
      if (known) say(told, known.message);
      return setTimeout(look, LOOK_EVERY);
    }, LOOK_EVERY);
  }

  open();
  return {
    go(rest, options) {
      place = { rest, options };
      if (run) show();
    },
    unmount() {
      closed = true;
      shown?.unmount();
      closing.forEach((close) => close());
      run?.close();
    },
  };
}

function overview(body, context, tell) {
  const { run } = context;
  const section = (name) => h("section", { class: `card of-${name}` });
  const [words, scores, verdicts, decisions, changes, front, budget, look, gone, tried] = ["figures", "scores", "verdicts", "decisions", "changes", "front", "burndown", "look", "removed", "tried"].map(section);
  const comesLate = run.detail.first_look === null && !run.isOver;
  look.toggleAttribute("data-late", comesLate);
  const below = run.isOver ? [changes, tried, isLive ? null : words, front, budget] : [budget, front, changes, tried]; // what grows stands last
  body.append(h("div", { class: "overview" }, h("div", { class: "main-column" }, gone, scores, comesLate ? [below, look] : [look, below]), h("div", { class: "side-column" }, verdicts, decisions)));
  const unmeasured = run.isOver && !run.trials.some((trial) => trial.objective_score != null); // of such a run there is nothing to draw
  const closing = [
    isLive ? () => {} : figures.mount(words, context),
    unmeasured ? () => {} : scoreChart.mount(scores, context),
    removed.mount(gone, context),
    firstLook.mount(look, context),
    verdict.mount(verdicts, context, tell),
    log.mount(decisions, context, { short: 14 }),
    unmeasured ? () => {} : best.mount(changes, context),
    pareto.hasPareto(run) ? pareto.mount(front, context) : () => {},
    burndown.mount(budget, context),
    hasFactors(run) && !unmeasured ? triedFactors.mount(tried, context) : () => {},
  ];
  return () => closing.forEach((close) => (close.unmount ?? close)());
}
