// Several objectives against each other: what every candidate gained over the baseline, and those that no other one beats in all.

import { around, drawing, grid, onWidth, ticks, tickText } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { signed, words } from "../format.js";
import { linkTo } from "../router.js";
import { choice, labelled } from "./controls.js";

const HEIGHT = 300;
const LEFT = 60, RIGHT = 16, TOP = 14, BOTTOM = 42;
const SIZE = 4;
const NEAR = 18;
const DENSE = 1000; // beyond it outlines would take a browser seconds, and show nothing

/** Whether there is anything to show. */
export const hasPareto = (run) => objectivesOf(run).length > 1;

export function mount(element, { run, subscribe, navigate, announce }) {
  const axes = h("div", { class: "choices" });
  const plot = h("div", { class: "plot pareto-plot" });
  const told = h("p", { class: "soft small pareto-told", "aria-hidden": "true" });
  const list = h("div", { class: "scroll front-list", tabindex: "0", role: "group", "aria-label": "Candidates that no other one beats in every objective" });
  replace(element, h("div", { class: "card-head" }, h("h2", {}, "Objectives against each other"), axes), plot, told, list);
  let width = 0, across = null, up = null, places = [];

  function draw() {
    const objectives = objectivesOf(run);
    if (objectives.length < 2) return;
    across = objectives.includes(across) ? across : objectives[0];
    up = objectives.includes(up) && up !== across ? up : objectives.find((name) => name !== across);
    if (objectives.length > 2) {
      const names = objectives.map((name) => [name, name]);
      replace(axes,
        labelled("Across", choice("across", names, across, (name) => ((across = name), draw()))),
        labelled("Up", choice("up", names.filter(([name]) => name !== across), up, (name) => ((up = name), draw()))));
    }
    const front = frontOf(run);
    if (width) drawPlot(front);
    replace(list, frontTable(run, objectives, front));
  }

  function drawPlot(front) {
    const measured = run.searching.filter((trial) => trial.gains?.[across] !== undefined && trial.gains[up] !== undefined);
    const x = around([0, ...measured.map((trial) => trial.gains[across])], [LEFT, width - RIGHT]);
    const y = around([0, ...measured.map((trial) => trial.gains[up])], [HEIGHT - BOTTOM, TOP]);
    places = measured.map((trial) => ({ trial, x: x.at(trial.gains[across]), y: y.at(trial.gains[up]), best: front.has(trial.candidate_id) }));
    const dense = places.length > DENSE;
    const baseline = { x: x.at(0), y: y.at(0) };
    const best = places.filter((place) => place.best);
    const staying = front.has(run.detail.baseline_candidate_id) ? [baseline, ...best] : best;
    const line = objectivesOf(run).length > 2 ? [] : staying.sort((one, other) => one.x - other.x);
    replace(plot, drawing(width, HEIGHT, `Gains in ${across} and ${up} of ${measured.length} candidates; ${front.size} are beaten by no other one. They are listed below.`,
      grid(y, LEFT, width - RIGHT, gainText),
      ticks(x, Math.max(2, Math.floor(width / 90))).map((tick) => s("text", { class: "tick middle", x: x.at(tick), y: HEIGHT - BOTTOM + 18 }, gainText(tick))),
      s("text", { class: "axis middle", x: (LEFT + width) / 2, y: HEIGHT - 4 }, `gain in ${across} →`),
      s("text", { class: "axis", x: 4, y: TOP - 2 }, `↑ gain in ${up}`),
      s("line", { class: "baseline-line", x1: x.at(0), x2: x.at(0), y1: TOP, y2: HEIGHT - BOTTOM }),
      s("line", { class: "baseline-line", x1: LEFT, x2: width - RIGHT, y1: y.at(0), y2: y.at(0) }),
      s("path", { class: dense ? "dots dense" : "dots", d: places.filter((place) => !place.best).map((place) => (dense ? square(place) : dot(place, SIZE))).join("") }),
      s("path", { class: "front-line", d: line.map(({ x: left, y: top }, place) => `${place ? "L" : "M"}${left.toFixed(1)} ${top.toFixed(1)}`).join("") }),
      s("path", { class: "dots front-dots", d: best.map((place) => diamond(place, SIZE + 2)).join("") }),
      s("path", { class: "mark-baseline", d: `M${baseline.x - SIZE} ${baseline.y - SIZE}h${2 * SIZE}v${2 * SIZE}h${-2 * SIZE}z` }),
      s("text", { class: "tick", x: baseline.x + 8, y: baseline.y - 7 }, "baseline"),
    ));
  }

  const nearest = (event) => {
    const at = plot.getBoundingClientRect(), [left, top] = [event.clientX - at.left, event.clientY - at.top];
    let found = null, least = NEAR * NEAR;
    for (const place of places) {
      const apart = (place.x - left) ** 2 + (place.y - top) ** 2;
      if (apart < least) [found, least] = [place, apart];
    }
    return found;
  };
  plot.addEventListener("pointermove", (event) => {
    const found = nearest(event);
    told.textContent = found ? `${found.trial.candidate_id}: ${across} ${signed(found.trial.gains[across])}, ${up} ${signed(found.trial.gains[up])}` : "";
  });
  plot.addEventListener("click", (event) => {
    const found = nearest(event);
    if (found) navigate(["runs", run.id, "candidates", found.trial.candidate_id]);
  });

  const stop = onWidth(plot, (now) => {
    width = now;
    draw();
  });
  const unsubscribe = subscribe((changed) => (changed.has("trials") || changed.has("rounds")) && draw());
  draw();
  return () => {
    stop();
    unsubscribe();
  };
}

/** The objectives that gains are known in; the one that is optimized first. */
function objectivesOf(run) {
  const known = run.searching.find((trial) => trial.gains && Object.keys(trial.gains).length > 1);
  if (!known) return [];
  const names = Object.keys(known.gains), first = run.detail.objective_name;
  return names.includes(first) ? [first, ...names.filter((name) => name !== first)] : names;
}

/** The members of the newest front, by candidate. */
const frontOf = (run) => new Map((run.rounds.findLast((round) => round.pareto_front.length)?.pareto_front ?? []).map((member) => [member.candidate_id, member]));

function frontTable(run, objectives, front) {
  if (!front.size) return h("p", { class: "soft" }, "No round has decided yet which candidates stand out.");
  const baseline = run.detail.baseline_candidate_id;
  return h("table", { class: "plain" },
    h("caption", { class: "soft" }, "Beaten by no other one in every objective; gains over the baseline, positive is better."),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Candidate"), objectives.map((name) => h("th", { scope: "col", class: "number" }, name)))),
    h("tbody", {}, [...front.values()].map((member) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: linkTo(["runs", run.id, "candidates", member.candidate_id]) }, member.candidate_id === baseline ? "the baseline" : member.candidate_id)),
      objectives.map((name) => h("td", { class: "number" }, member.gains[name] === undefined ? "–" : gainText(Number(member.gains[name].toPrecision(4))), member.verdicts[name] ? h("span", { class: "soft" }, ` ${words(member.verdicts[name])}`) : null)),
    ))),
  );
}

const gainText = (value) => (value > 0 ? `+${tickText(value)}` : tickText(value));
const dot = ({ x, y }, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
const square = ({ x, y }) => `M${(x - 1.5).toFixed(1)} ${(y - 1.5).toFixed(1)}h3v3h-3z`;
const diamond = ({ x, y }, r) => `M${x.toFixed(1)} ${(y - r).toFixed(1)}l${r} ${r}l${-r} ${r}l${-r} ${-r}z`;
