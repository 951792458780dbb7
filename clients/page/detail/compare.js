// This run beside another one: scores on the samples both share, what each point cost, who fixed what, and what the winners differ in.

import { around, drawing, grid, onWidth, scale, ticks } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { cost, score, signed, whole, words } from "../format.js";
import { linkTo } from "../router.js";
import { askForReport } from "../views/report_question.js";
import { choice, labelled, roomyLayout, verdictPill } from "./controls.js";
import { changesView } from "./diff.js";
import { reading } from "./reading.js";
import { samplesView } from "./samples.js";

const HEIGHT = 220;
const LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 34;
const OFFERED = 200;
const ROUNDS = 1000;

export function mount(element, { run, api, navigate, announce, options: given }) {
  let options = given;
  let pair = null;
  const steps = ["runs", run.id, "compare"];
  const chooser = h("div", { class: "choices" });
  const place = h("div", {});
  const report = h("button", { type: "button", hidden: true, onclick: () => askForReport([options.get("with"), run.id].map((id) => ({ id, name: id === run.id ? run.detail.name : "" }))) }, "Report…");
  replace(element, h("h2", {}, "Compared with another run"), h("div", { class: "choices" }, chooser, report), place);
  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });

  const giveUp = reading(chooser, (signal) => api.get("/optimizations", { query: { limit: OFFERED }, signal }), ({ items }) => {
    const others = items.filter((one) => one.optimization_id !== run.id && one.best_candidate_id);
    const wanted = options.get("with") ?? "";
    const entries = others.map((one) => [one.optimization_id, `${one.optimization_id} · ${one.headline.brief} · ${one.optimizer}`]);
    if (wanted && !others.some((one) => one.optimization_id === wanted)) entries.unshift([wanted, wanted]);
    replace(chooser, entries.length
      ? labelled("Compared with", choice("with", [["", "Choose a run"], ...entries], wanted, (chosen) => go({ with: chosen || null, only: null, page: null })))
      : h("p", { class: "soft" }, "There is no other run with a best candidate."));
  });

  function draw() {
    const other = options.get("with");
    if (other && pair?.other === other) return pair.go(options);
    pair?.close();
    pair = null;
    report.hidden = !other;
    if (!other) return replace(place, h("p", { class: "soft" }, "Runs can be compared that share samples: the same dataset and split."));
    pair = { other, ...pairView(place, { api, names: [other, run.id], options, go, announce }) };
    return undefined;
  }

  draw();
  return {
    go: (now) => ((options = now), draw()),
    unmount: () => (giveUp(), pair?.close()),
  };
}

/** Two runs beside each other; `names` are the one that is compared with, and the other. */
export function pairView(element, { api, names, options: given, go, announce }) {
  let options = given, purpose, sides = null, giveUpSamples = () => {};
  const body = h("div", { class: "compared" });
  const samples = h("section", { class: "card", "aria-label": "Sample by sample", hidden: true });
  replace(element, body, samples);
  const query = new URLSearchParams(names.map((name) => ["of", name]));
  const closing = [reading(body, (signal) => api.get(`/comparison?${query}`, { signal }), drawCompared)];

  function drawCompared(found) {
    const [theirs, ours] = [found.reference, found.compared[0]];
    purpose = found.samples === "held-back" ? "confirmation" : null;
    sides = { theirs, ours };
    const chart = h("div", { class: "paid-plot" });
    replace(body,
      h("section", { class: "card" },
        h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Both runs" }, standings(theirs, ours, found.samples)),
        ours.judged ? h("p", { class: "soft judged" }, ours.judged.explanation) : h("p", { class: "soft" }, "No sample was answered in both."),
      ),
      h("section", { class: "card" }, h("h3", {}, "Best score by what was paid"), chart),
      h("section", { class: "card" }, h("h3", {}, "What differs between the best of both"),
        changesView(ours.changes, { from: theirs.optimization_id, to: ours.optimization_id, heading: "h4", layout: roomyLayout() })),
    );
    const runs = [theirs.optimization_id, ours.optimization_id];
    const ask = (signal) => Promise.all(runs.map((id) => api.get(api.ofRun(id, "rounds"), { query: { limit: ROUNDS }, signal })));
    closing.push(reading(chart, ask, (pages) => {
      replace(chart);
      closing.push(onWidth(chart, (width) => replace(chart, paidChart(runs.map((id, place) => [id, pages[place].items]), width))));
    }));
    announce(`Compared with ${theirs.optimization_id}: ${ours.judged ? words(ours.judged.verdict) : "no verdict"}`);
    drawSamples();
  }

  function drawSamples() {
    giveUpSamples();
    const { theirs, ours } = sides;
    const fixed = { candidate: ours.candidate_id, against: theirs.candidate_id, against_run: theirs.optimization_id, purpose };
    const place = samples.querySelector(".sample-place") ?? h("div", { class: "sample-place" });
    samples.hidden = false;
    replace(samples, h("h3", {}, "Sample by sample"), place);
    giveUpSamples = samplesView(place, {
      ask: (query, signal) => api.get(api.ofRun(ours.optimization_id, "comparison"), { query: { ...fixed, ...query }, signal }),
      names: { before: theirs.optimization_id, after: ours.optimization_id }, options, go, announce, verdict: false,
    });
  }

  return {
    go(now) {
      options = now;
      if (sides) drawSamples();
    },
    close: () => [giveUpSamples, ...closing].forEach((close) => close()),
  };
}

function standings(theirs, ours, samples) {
  const evidence = ours.judged?.evidence;
  const sign = ours.direction === "maximize" ? 1 : -1;
  const rows = [
    ["Candidate", (one) => h("a", { href: linkTo(["runs", one.optimization_id, "candidates", one.candidate_id]) }, one.candidate_id)],
    [`Score on the ${samples} samples`, (one) => score(one.score)],
    ["Difference", (one) => (one === ours && evidence ? `${signed(sign * evidence.effect)}${evidence.refused ? "" : ` (${[sign * evidence.low, sign * evidence.high].sort((a, b) => a - b).map((end) => signed(end)).join(" … ")})`}` : "")],
    ["Verdict", (one) => (one === ours && ours.judged ? verdictPill(ours.judged.verdict) : "")],
    ["Fixed, broken", (one) => (one === ours ? `${whole(ours.counts.fixed)}, ${whole(ours.counts.broken)}` : "")],
    ["Paid", (one) => cost(one.paid)],
    ["Gained over its own baseline, confirmed", (one) => (one.gained_points === null ? "–" : `${one.gained_points < 0 ? "−" : "+"}${Math.abs(one.gained_points).toFixed(1)} points`)],
    ["Paid per point", (one) => (one.paid_per_point === null ? "–" : cost(one.paid_per_point))],
  ];
  const head = (one) => h("th", { scope: "col" }, h("a", { href: linkTo(["runs", one.optimization_id]) }, one.optimization_id));
  return h("table", { class: "plain standings" },
    h("thead", {}, h("tr", {}, h("td", {}), head(theirs), head(ours))),
    h("tbody", {}, rows.map(([name, cell]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, cell(theirs)), h("td", {}, cell(ours))))),
  );
}

/** Both runs' best so far over what they had paid; over their calls where nothing has a price. */
function paidChart(runs, width) {
  const priced = runs.some(([, rounds]) => rounds.some((round) => round.spend.cost > 0));
  const paid = (round) => (priced ? round.spend.cost : round.spend.samples);
  const known = runs.map(([name, rounds]) => [name, rounds.filter((round) => round.best_so_far !== null)]);
  const every = known.flatMap(([, rounds]) => rounds);
  const x = scale(0, Math.max(...every.map(paid), 1e-9), [LEFT, width - RIGHT]);
  const y = around(every.map((round) => round.best_so_far), [HEIGHT - BOTTOM, TOP]);
  const lines = known.map(([, rounds], place) => {
    const path = rounds.map((round, at) => (at ? `H${x.at(paid(round)).toFixed(1)}V${y.at(round.best_so_far).toFixed(1)}` : `M${x.at(paid(round)).toFixed(1)} ${y.at(round.best_so_far).toFixed(1)}`)).join("");
    return s("path", { class: `burn burn-${place}`, d: path });
  });
  const told = known.map(([name, rounds]) => `${name} reaches ${score(rounds.at(-1)?.best_so_far)}`).join(", ");
  return [
    drawing(width, HEIGHT, `Best score over what was paid: ${told}.`,
      grid(y, LEFT, width - RIGHT),
      ticks(x, Math.max(2, Math.floor(width / 90))).map((tick) => s("text", { class: "tick middle", x: x.at(tick), y: HEIGHT - BOTTOM + 18 }, priced ? cost(tick) : whole(tick))),
      s("text", { class: "axis middle", x: (LEFT + width) / 2, y: HEIGHT - 2 }, priced ? "cost" : "calls"), lines),
    h("ul", { class: "legend" }, known.map(([name], place) => h("li", {}, h("span", { class: `swatch burn-${place}`, "aria-hidden": "true" }), name))),
  ];
}
