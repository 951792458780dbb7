// All runs: where each stands, what it comes to, what it has spent. Live.

import { h, replace, say } from "../dom.js";
import { ago, cost, duration, whole, words } from "../format.js";
import { follow } from "../live.js";
import { linkTo } from "../router.js";
import { isLive } from "../source.js";
import { connectionChip } from "./connection.js";
import { statusPill, waitsOf } from "./status.js";

const PAGE = 50;
const AGAIN_AFTER = 2000;
const LOOK_EVERY = 5000; // for runs that have not begun: nothing happens to them that would be told
const STATUSES = ["running", "paused", "completed", "failed", "cancelled", "terminated", "initialized"];

export function mount(element, { api, navigate, options }) {
  let wanted = PAGE;
  let reading = null, again = false;
  let closed = false;
  let connection = { kind: "connecting", at: Date.now() };
  const chip = connectionChip(() => stream.again());
  const search = h("input", { id: "run-search", type: "search", placeholder: "name, id or tag", value: options.get("search") ?? "", oninput: () => later(filter, 200) });
  const status = h("select", { id: "run-status", onchange: () => filter() }, h("option", { value: "" }, "all"), STATUSES.map((name) => h("option", { value: name }, name)));
  status.value = options.get("status") ?? "";
  const pinned = h("input", { type: "checkbox", checked: options.get("pinned") === "true", onchange: () => filter() });
  const told = h("p", { class: "told", role: "status" });
  const rows = h("tbody");
  const table = h("table", { class: "runs", "aria-label": "Runs" }, h("thead", {}, h("tr", {}, ["Run", "Status", "Result", "Progress", "Spent", "Started"].map((title) => h("th", { scope: "col" }, title)))), rows);
  const months = h("div", { class: "months" });
  const problem = h("p", { class: "problem", role: "alert" });
  const nothing = h("div", { class: "empty", hidden: true });
  let listed = [], total = 0;
  const send = h("button", { type: "button", hidden: true, onclick: () => import("./report_question.js").then(({ askForReport }) => askForReport(listed, { mayChoose: true, total })) }, "Report…");
  const more = h("button", { type: "button", hidden: true, onclick: () => ((wanted += PAGE), read()) }, "Show more");
  replace(element,
    h("div", { class: "title" }, h("h1", { tabindex: "-1" }, "Runs"), chip.element, isLive ? h("a", { class: "button primary end", href: linkTo(["new"]) }, "New run") : null),
    h("div", { class: "filters" },
      h("div", { class: "wide" }, h("label", { for: "run-search" }, "Search"), search),
      h("div", {}, h("label", { for: "run-status" }, "Status"), status),
      h("label", { class: "check" }, pinned, "pinned only"), told, send),
    problem,
    months,
    h("div", { class: "card flush" }, table, nothing),
    h("div", { class: "buttons centred" }, more),
  );
  chip.show(connection);

  let timer = 0;
  function later(act, time) {
    clearTimeout(timer);
    timer = setTimeout(act, time);
  }

  function filter() {
    wanted = PAGE;
    history.replaceState(null, "", linkTo(["runs"], { search: search.value.trim(), status: status.value, pinned: pinned.checked || null }));
    return read();
  }

  function read() {
    if (reading) {
      again = true;
      return reading;
    }
    reading = readOnce().finally(() => {
      reading = null;
      if (again && !closed) {
        again = false;
        read().catch(() => {});
      }
    });
    return reading;
  }

  async function readOnce() {
    const query = { search: search.value.trim(), status: status.value, pinned: pinned.checked || null, limit: wanted };
    try {
      const page = await api.get("/optimizations", { query });
      if (closed) return;
      connection = { ...connection, at: Date.now() };
      draw(page);
      replace(problem);
    } catch (error) {
      if (!closed && !rows.children.length && error.status !== 401) replace(problem, error.message);
      throw error;
    }
  }

  let monthsKnown = "";
  async function readMonths() {
    const found = await api.get("/teams/months");
    const state = JSON.stringify(found);
    if (!closed && state !== monthsKnown) replace(months, found.flatMap(monthOf));
    monthsKnown = state;
  }

  const known = new Map();
  function draw({ items, total: found }) {
    total = found;
    listed = items.filter((run) => run.status !== "initialized").map((run) => ({ id: run.optimization_id, name: run.name }));
    send.hidden = !listed.length;
    const next = items.map((run) => {
      const state = JSON.stringify(run);
      const before = known.get(run.optimization_id);
      if (before?.state === state) {
        before.tick();
        return before;
      }
      const made = { state, ...rowOf(run) };
      if (before?.row.contains(document.activeElement)) requestAnimationFrame(() => made.row.querySelector("a")?.focus());
      known.set(run.optimization_id, made);
      return made;
    });
    const wantedRows = next.map(({ row }) => row);
    if (wantedRows.length !== rows.children.length || wantedRows.some((row, place) => rows.children[place] !== row)) replace(rows, wantedRows);
    more.hidden = items.length >= total;
    const filtered = search.value.trim() || status.value || pinned.checked;
    nothing.hidden = total > 0;
    table.hidden = total === 0;
    replace(nothing, filtered ? [h("strong", {}, "No run is like that"), "Try another word, or all statuses."] : [h("strong", {}, "No runs yet"), h("code", {}, "ratchet run spec.yaml"), " starts one, and so does ", h("a", { href: linkTo(["new"]) }, "New run"), "; it appears here by itself."]);
    say(told, `${whole(total)} run${total === 1 ? "" : "s"}`);
  }

  function rowOf(run) {
    const started = h("span", {}, ago(run.started_at));
    const row = h("tr", { onclick: (event) => event.target.closest("a") || navigate(["runs", run.optimization_id]) },
      h("td", { class: "who" }, h("a", { href: linkTo(["runs", run.optimization_id]) }, run.name), h("div", { class: "mono soft small" }, run.optimization_id), saidOf(run.marks)),
      h("td", { "data-title": "Status" }, statusPill(run)),
      h("td", { "data-title": "Result" }, resultOf(run)),
      h("td", { "data-title": "Progress" }, progressOf(run)),
      h("td", { "data-title": "Spent" }, spentOf(run)),
      h("td", { "data-title": "Started", class: "soft" }, h("div", {}, started), h("div", { class: "small" }, tookOf(run))),
    );
    return { row, tick: () => say(started, ago(run.started_at)) };
  }

  const stream = follow("/events", {
    onEvent: () => read().catch(() => setTimeout(() => !closed && read().catch(() => {}), AGAIN_AFTER)),
    onState(kind) {
      connection = { kind, at: connection.at };
      chip.show(connection);
      if (kind === "live") read().catch(() => {});
    },
    poll: read,
  });
  read().catch(() => {});
  readMonths().catch(() => {});
  const ticking = setInterval(() => known.forEach((made) => made.tick()), 30_000);
  const looking = setInterval(() => {
    if (document.hidden) return;
    read().catch(() => {});
    readMonths().catch(() => {});
  }, LOOK_EVERY);

  return {
    go(_, options) {
      const wished = options.get("pinned") === "true";
      if ((options.get("search") ?? "") === search.value.trim() && (options.get("status") ?? "") === status.value && wished === pinned.checked) return;
      pinned.checked = wished;
      search.value = options.get("search") ?? "";
      status.value = options.get("status") ?? "";
      read().catch(() => {});
    },
    unmount() {
      closed = true;
      clearInterval(ticking);
      clearInterval(looking);
      clearTimeout(timer);
      stream.close();
    },
  };
}

/** A pin, tags, and how many notes: what people said of it. */
function saidOf({ pinned, tags, notes } = { tags: [] }) {
  if (!pinned && !tags.length && !notes) return null;
  return h("div", { class: "marks-line small" }, pinned ? h("span", { class: "pill", "data-kind": "accent" }, "★ pinned") : null,
    tags.map((tag) => h("span", { class: "pill tag" }, tag)), notes ? h("span", { class: "soft" }, `${whole(notes)} note${notes === 1 ? "" : "s"}`) : null);
}

const MONTH_SHOWS = [["cost", cost, ""], ["tokens", whole, " tokens"], ["samples", whole, " calls"]];

/** What is left of a team's month, one line for each limit. */
function monthOf({ team, month, budget, spent, set_aside: aside, left }) {
  return MONTH_SHOWS.filter(([name]) => budget[name]).map(([name, shown, unit]) => {
    const part = (spent[name] + aside[name]) / budget[name];
    return h("div", { class: "month" },
      h("span", {}, h("strong", {}, team), ` in ${month}: ${shown(spent[name])} spent${aside[name] ? `, ${shown(aside[name])} set aside` : ""}, ${shown(left[name])} of ${shown(budget[name])}${unit} left`),
      barOf(part, part > 0.95 ? "bad" : part > 0.8 ? "warn" : ""),
    );
  });
}

function resultOf({ headline, direction, objective_name: objective }) {
  return [
    h("div", {}, h("strong", { class: headline.holds ? "good" : "" }, headline.brief || "–")),
    h("div", { class: "soft small" }, `${direction} ${objective}`),
  ];
}

function progressOf(run) {
  const { round, max_rounds: most, counts, status, stop_reason: reason } = run;
  const rounds = most ? `round ${whole(round)} of ${whole(most)}` : `round ${whole(round)}`;
  const open = status === "running" || status === "paused";
  const waits = waitsOf(run);
  if (waits) return [status === "initialized" ? null : h("div", {}, rounds), h("div", { class: "warn small" }, waits)];
  const told = open ? `${whole(counts.completed)} trials${counts.running ? `, ${whole(counts.running)} in flight` : ""}` : words(reason ?? "");
  return [h("div", {}, rounds), open && most ? barOf(round / most) : null, h("div", { class: "soft small" }, told)];
}

function spentOf({ spend, budget }) {
  const part = budget.cost ? spend.cost / budget.cost : null;
  return [
    h("div", {}, cost(spend.cost), budget.cost ? h("span", { class: "soft" }, ` of ${cost(budget.cost)}`) : null),
    part === null ? null : barOf(part, part > 0.95 ? "bad" : part > 0.8 ? "warn" : ""),
    h("div", { class: "soft small" }, `${whole(spend.samples)} calls`),
  ];
}

function barOf(part, kind = "") {
  const filled = h("span", {});
  filled.style.width = `${Math.min(100, part * 100)}%`;
  return h("div", { class: "bar", "data-kind": kind, "aria-hidden": "true" }, filled);
}

function tookOf({ started_at: start, finished_at: end, stood_still_seconds: still }) {
  return end ? `took ${duration((new Date(end) - new Date(start)) / 1000 - still)}` : "";
}
