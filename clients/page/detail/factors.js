// Structured factors: which of them mattered, and which values came with which scores, as parallel coordinates.

import { drawing, onWidth, scale, ticks, tickText } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { plain, score, whole } from "../format.js";
import { linkTo } from "../router.js";
import { reading } from "./reading.js";

const HEIGHT = 260;
const TOP = 30, BOTTOM = 14, SIDE = 48;
const MOST_AXES = 8;
const LISTED = 5;
const APART = 72; // pixels that an axis needs
const CHARACTER = 7; // pixels that one of its name needs

export function mount(element, { run, api, subscribe }) {
  const body = h("div", {});
  let giveUp = () => {}, stop = () => {}, measured = -1;
  element.hidden = true;
  replace(element, h("div", { class: "card-head" }, h("h2", {}, "What was tried")), body);

  function load() {
    const now = run.searching.filter((trial) => trial.objective_score != null).length;
    if (now === measured) return;
    measured = now;
    giveUp();
    giveUp = reading(body, (signal) => api.get(api.ofRun(run.id, "factors"), { signal }), draw);
  }

  function draw(found) {
    stop();
    const varied = variedOf(found);
    element.hidden = !varied.length;
    if (element.hidden) return replace(body);
    const shares = new Map((found.importances?.factors ?? []).map((one) => [one.factor, one.share]));
    const order = varied.sort((one, other) => (shares.get(other) ?? 0) - (shares.get(one) ?? 0)).slice(0, MOST_AXES);
    const plot = h("div", { class: "plot" });
    replace(body,
      shares.size ? importanceList(found.importances) : h("p", { class: "soft small" }, run.isOver ? "Which of them mattered is not known: only a search over values works that out, at its end." : "Which of them mattered is worked out at the end, by a search over values."),
      plot,
      h("p", { class: "soft small" }, `A line is a candidate; the ${Math.min(LISTED, found.candidates.length)} best are strong.${varied.length > MOST_AXES ? ` ${whole(varied.length - MOST_AXES)} more factors are in the table of trials.` : ""}`),
      bestTable(order, found));
    stop = onWidth(plot, (width) => {
      const fitting = Math.max(1, Math.min(order.length, Math.floor((width - 2 * SIDE) / APART)));
      replace(plot, coordinates(order.slice(0, fitting), found, width));
    });
    return undefined;
  }

  function bestTable(order, found) {
    return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The best candidates with their values" }, h("table", { class: "plain tried-table" },
      h("caption", { class: "unseen" }, "The best candidates with their values"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Candidate"), h("th", { scope: "col", class: "number" }, "Score"), order.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, found.candidates.slice(0, LISTED).map((one) => h("tr", {},
        h("th", { scope: "row" }, h("a", { href: linkTo(["runs", run.id, "candidates", one.candidate_id]) }, one.candidate_id)),
        h("td", { class: "number" }, score(one.score)),
        order.map((name) => h("td", {}, shown(one.values[found.factors.indexOf(name)]))))))));
  }

  load();
  const unsubscribe = subscribe((changed) => changed.has("trials") && load());
  return () => (unsubscribe(), giveUp(), stop());
}

/** Factors that had more than one value. */
function variedOf({ factors, candidates }) {
  return factors.filter((_, place) => new Set(candidates.map(({ values }) => JSON.stringify(values[place]))).size > 1);
}

function importanceList({ factors, trials }) {
  return h("div", {},
    h("p", { class: "soft small" }, `How much of what makes scores differ is due to each, by ${whole(trials)} trials`),
    h("dl", { class: "importances" }, factors.slice(0, MOST_AXES).map(({ factor, share }) => {
      const bar = h("span", {});
      bar.style.width = `${Math.round(share * 100)}%`;
      return h("div", {}, h("dt", {}, factor), h("dd", {}, h("span", { class: "bar", "aria-hidden": "true" }, bar), h("span", { class: "number" }, `${Math.round(share * 100)} %`)));
    })));
}

function coordinates(order, found, width) {
  const columns = [...order.map((name) => axisOf(name, found.candidates.map((one) => one.values[found.factors.indexOf(name)]))), axisOf("score", found.candidates.map((one) => one.score))];
  const x = scale(0, Math.max(1, columns.length - 1), [SIDE, width - SIDE]);
  const line = (row) => columns.map((column, place) => `${x.at(place).toFixed(1)},${column.at(row).toFixed(1)}`).join(" ");
  const between = columns.length > 1 ? x.at(1) - x.at(0) : width;
  const room = (place) => Math.max(6, Math.floor((place ? between - 12 : between / 2 + SIDE - 8) / CHARACTER));
  const title = (name, place) => {
    const text = named(name, room(place)), middle = place > 0 || text.length * CHARACTER < 2 * SIDE;
    return s("text", { class: `tick tried-label${middle ? " middle" : ""}`, x: middle ? x.at(place) : 2, y: TOP - 14 }, text, s("title", {}, name));
  };
  const rows = found.candidates.map((_, row) => row).reverse(); // the best are drawn last
  return drawing(width, HEIGHT, `Values of ${order.join(", ")} beside scores; the best candidates are in the table below`,
    rows.map((row) => s("polyline", { class: row < LISTED ? "tried-line strong" : "tried-line", points: line(row) })),
    columns.map((column, place) => [
      s("line", { class: "grid", x1: x.at(place), x2: x.at(place), y1: TOP, y2: HEIGHT - BOTTOM }),
      title(column.name, place),
      column.labels.map(([text, at]) => s("text", { class: place === columns.length - 1 ? "tick tried-label" : "tick end tried-label", x: x.at(place) + (place === columns.length - 1 ? 7 : -7), y: at + 4 }, text)),
    ]));
}

/** Numbers on a scale; anything else in the order in which it first comes. */
function axisOf(name, values) {
  const ends = [HEIGHT - BOTTOM, TOP];
  if (values.every((value) => typeof value === "number")) {
    const low = Math.min(...values), high = Math.max(...values);
    const y = scale(low, high, ends);
    return { name, at: (row) => y.at(values[row]), labels: low === high ? [[tickText(low), y.at(low)]] : ticks(y, 4).map((tick) => [tickText(tick), y.at(tick)]) };
  }
  const kinds = [...new Set(values.map(shown))].sort();
  const y = scale(0, Math.max(1, kinds.length - 1), ends);
  const every = Math.ceil(kinds.length / 8);
  return { name, at: (row) => y.at(kinds.indexOf(shown(values[row]))), labels: kinds.map((kind, place) => [short(kind, 9), y.at(place)]).filter((_, place) => place % every === 0) };
}

const shown = (value) => (typeof value === "string" ? value : typeof value === "number" ? tickText(value) : plain(value));
/** Where there is no room for all of `param:temperature`, what it is called among its kind. */
const named = (name, most) => short(name.length > most ? name.split(":").at(-1) : name, most);
const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
