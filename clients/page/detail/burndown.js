// Budgets: what is left of each over time, and when it will be used up at the rate of so far.

import { drawing, grid, onWidth, scale, ticks } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { cost, duration, share, whole } from "../format.js";
import { budgetsOf, forecast, secondsLeft } from "./budgets.js";

const HEIGHT = 220;
const LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 34;
const NAMES = 58; // pixels on the right of the lines
const NAME_HEIGHT = 15;
const TICKING = 5_000;

export function mount(element, { run, subscribe }) {
  const plot = h("div", { class: "burn-plot" });
  const table = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Budgets" });
  const told = h("p", { class: "soft small budget-notes" });
  replace(element, h("div", { class: "card-head" }, h("h2", {}, "Budget")), plot, table, told);
  let width = 0;
  const grows = !run.isOver; // then there is room from the start for what will be used

  function draw() {
    const budgets = budgetsOf(run), left = secondsLeft(run);
    const limited = budgets.filter((budget) => budget.limit > 0);
    if (width) replace(plot, limited.length ? burning(limited, run, left, width) : spending(budgets, run, left, width));
    replace(table, tableOf(budgets.filter((budget) => budget.limit > 0 || ((grows || budget.used > 0) && budget.name !== "trials")), run, left));
    replace(told, notes(run, limited, left));
  }

  const stop = onWidth(plot, (now) => {
    width = now;
    draw();
  });
  const timer = setInterval(() => !run.isOver && !document.hidden && draw(), TICKING);
  const unsubscribe = subscribe((changed) => (changed.has("detail") || changed.has("rounds") || changed.has("trials")) && draw());
  draw();
  return () => {
    stop();
    clearInterval(timer);
    unsubscribe();
  };
}

/** The share that is left of each budget, from all of it down to nothing. */
function burning(budgets, run, ahead, width) {
  const elapsed = Math.max(...budgets.map(({ points }) => points.at(-1)[0]), 1);
  const goesOn = !run.isOver && run.detail.status !== "paused";
  const x = scale(0, elapsed + (goesOn ? Math.min(ahead ?? elapsed * 0.2, elapsed * 3) : 0), [LEFT, width - NAMES]);
  const y = scale(0, 1, [HEIGHT - BOTTOM, TOP]);
  const ends = [];
  const lines = budgets.map((budget, place) => {
    const left = (used) => Math.max(1 - used / budget.limit, 0);
    const points = budget.points.map(([second, used]) => [x.at(second), y.at(left(used))]);
    const until = x.high - elapsed;
    const last = goesOn && budget.rate > 0 ? y.at(left(budget.used + budget.rate * until)) : points.at(-1)[1];
    ends.push(last);
    return [
      s("path", { class: `burn burn-${place}`, d: pathOf(points) }),
      s("path", { class: `burn ahead burn-${place}`, d: goesOn && budget.rate > 0 ? `M${points.at(-1)}L${x.at(x.high)} ${last}` : "" }),
    ];
  });
  const names = apart(ends).map((at, place) => s("text", { class: "burn-name", x: width - NAMES + 8, y: at + 4 }, budgets[place].title));
  const label = `What is left of each budget over time: ${budgets.map((budget) => `${budget.title} ${share(Math.max(1 - budget.used / budget.limit, 0))}`).join(", ")}. The table below has the numbers.`;
  return drawing(width, HEIGHT, label, grid(y, LEFT, width - NAMES, share), timeAxis(x, width - NAMES + RIGHT), goesOn ? nowLine(x, elapsed) : null, lines, names);
}

/** Where names stand beside the ends of their lines, none on another, and none as high as the word `now`. */
function apart(ends) {
  const order = ends.map((_, place) => place).sort((one, other) => ends[one] - ends[other]);
  const placed = [];
  let least = TOP + NAME_HEIGHT / 2 + 2;
  for (const place of order) {
    placed[place] = Math.max(ends[place], least);
    least = placed[place] + NAME_HEIGHT;
  }
  let most = HEIGHT - BOTTOM;
  for (const place of order.reverse()) {
    placed[place] = Math.min(placed[place], most);
    most = placed[place] - NAME_HEIGHT;
  }
  return placed;
}

/** Without a budget: what was spent, and where it leads. */
function spending(budgets, run, left, width) {
  const budget = budgets.find(({ name, used }) => name === "cost" && used > 0) ?? budgets.find(({ name }) => name === "samples");
  const elapsed = Math.max(budget.points.at(-1)[0], 1);
  const goesOn = !run.isOver && run.detail.status !== "paused";
  const ahead = goesOn ? Math.min(left ?? elapsed * 0.2, elapsed * 3) : 0;
  const x = scale(0, elapsed + ahead, [LEFT, width - RIGHT]);
  const y = scale(0, (budget.used + budget.rate * ahead) * 1.05 || 1, [HEIGHT - BOTTOM, TOP]);
  const points = budget.points.map(([second, used]) => [x.at(second), y.at(used)]);
  return drawing(width, HEIGHT, `${budget.title} spent over time: ${budget.text(budget.used)}. No budget is set.`,
    grid(y, LEFT, width - RIGHT, budget.text), timeAxis(x, width), goesOn ? nowLine(x, elapsed) : null,
    s("path", { class: "burn burn-0", d: pathOf(points) }),
    goesOn ? s("path", { class: "burn ahead burn-0", d: `M${points.at(-1)}L${x.at(elapsed + ahead)} ${y.at(budget.used + budget.rate * ahead)}` }) : null,
  );
}

const pathOf = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const nowLine = (x, elapsed) => [
  s("line", { class: "now-line", x1: x.at(elapsed), x2: x.at(elapsed), y1: TOP, y2: HEIGHT - BOTTOM }),
  s("text", { class: "tick middle", x: x.at(elapsed), y: TOP - 2 }, "now"),
];

/** Hours or minutes, whichever gives round numbers. */
function timeAxis(x, width) {
  const unit = [86400, 3600, 60, 1].find((seconds) => x.high >= seconds * 2) ?? 1;
  const inUnits = { low: 0, high: x.high / unit };
  return [
    ticks(inUnits, Math.max(2, Math.floor(width / 90))).filter((tick, place, all) => place === 0 || duration(tick * unit) !== duration(all[place - 1] * unit)).map((tick) => s("text", { class: "tick middle", x: x.at(tick * unit), y: HEIGHT - BOTTOM + 18 }, duration(tick * unit))),
    s("text", { class: "axis middle", x: (LEFT + width) / 2, y: HEIGHT - 2 }, "since the start"),
  ];
}

function tableOf(budgets, run, left) {
  const limited = budgets.filter(({ limit }) => limit > 0);
  const forecasts = budgets.map((budget) => forecast(budget, run, left));
  const ahead = forecasts.some(Boolean);
  return h("table", { class: "plain budgets" },
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Budget"), h("th", { scope: "col", class: "number" }, "Used"), h("th", { scope: "col", class: "number" }, "Of"),
      h("th", { scope: "col", class: "number" }, "Left"), ahead ? h("th", { scope: "col" }, "At the rate of so far") : null,
    )),
    h("tbody", {}, budgets.map((budget, place) => h("tr", {},
      h("th", { scope: "row" }, budget.limit ? h("span", { class: `swatch burn-${limited.indexOf(budget)}`, "aria-hidden": "true" }) : null, budget.title),
      h("td", { class: "number" }, budget.text(budget.used)),
      h("td", { class: "number" }, budget.limit ? budget.text(budget.limit) : "no limit"),
      h("td", { class: "number" }, budget.limit ? share(Math.max(1 - budget.used / budget.limit, 0)) : "–"),
      ahead ? h("td", {}, forecasts[place] || "–") : null,
    ))),
  );
}

function notes(run, limited, left) {
  const { lost } = run.detail;
  return [
    limited.length ? null : "No budget is set. ",
    left === null ? null : `At most ${duration(left)} left at the rate of so far; a stop rule may end it sooner. `,
    lost.samples ? `${whole(lost.samples)} calls without an answer may have been paid for, with at most ${cost(lost.cost)}. ` : null,
  ];
}
