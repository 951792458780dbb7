// What may be asked of a run: rest, go on, stop, cancel, other limits, another try.

import { h, replace } from "../dom.js";
import { cost, duration, whole } from "../format.js";
import { linkTo } from "../router.js";
import { isLive } from "../source.js";
import { ask } from "./dialogs.js";

const OF_PLUGINS = /-evaluation-[0-9a-f]{12}$/; // the queue of workers that have exactly one code

/** The buttons of a run, as its status allows; what was answered is told by `tell(kind, text)`. */
export function mount(element, { run, api, navigate, subscribe }, tell) {
  const key = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  const request = async (what, body) => (await api.post(api.ofRun(run.id, what), body, { key: key() })).message;

  async function question(options) {
    const answer = await ask(options);
    if (answer) {
      tell("good", answer);
      run.read().catch(() => {});
    }
  }

  const pause = () => question({
    title: "Pause this run?",
    body: ["Trials in flight finish, then the run rests. Nothing is lost, and time spent paused does not count against its time budget."],
    confirm: "Pause", act: () => request("pause"),
  });
  const resume = () => question({ title: "Let the run go on?", body: ["It goes on with the next round."], confirm: "Go on", act: () => request("resume") });
  const stop = () => question({
    title: "Stop this run early?",
    body: ["What is in flight finishes; the best is kept, confirmed and reported. It cannot be resumed afterwards."],
    fields: [{ name: "reason", label: "Why (it is written in the report)", wide: true }],
    confirm: "Stop early", kind: "danger", act: ({ reason }) => request("stop", { reason }),
  });
  const cancel = () => question({
    title: "Cancel this run?",
    body: ["Trials in flight are cut off: what was paid for them is lost. What is known so far is kept. There is no confirmation. To keep the best with its evidence, stop it early instead."],
    confirm: "Cancel the run", kind: "danger", cancel: "Let it run", act: () => request("cancel"),
  });
  async function retry() {
    const failed = run.missingAnswers;
    const started = await ask({
      title: "Retry what failed?",
      body: [
        `${failed ? `${whole(failed)} answer${failed === 1 ? "" : "s"} failed.` : "No answer of this run is known to have failed; what is missing is asked again."} A new run takes over all other answers, and the proposals: nothing that was answered is paid for again.`,
        "Once answers that failed are there, other candidates may turn out to be the best, so later rounds may differ, and cost what they cost.",
      ],
      confirm: "Retry", act: () => api.post(api.ofRun(run.id, "retry")),
    });
    if (started) navigate(["runs", started.optimization_id]);
  }
  const adjust = () => question(adjustment(run, request));

  let shown = "", caller = null, closed = false;
  function draw() {
    const { status, execution } = run.detail;
    const state = `${status} ${execution} ${caller?.role} ${lacksAnswers(run)}`;
    if (state === shown) return;
    shown = state;
    const had = element.contains(document.activeElement) ? document.activeElement.textContent : null;
    replace(element, buttonsFor(status, execution));
    if (had) ([...element.querySelectorAll("button")].find((found) => found.textContent === had) ?? element.querySelector("button"))?.focus();
  }

  function buttonsFor(status, execution) {
    if (!isLive) return [];
    const again = h("a", { class: "button", href: linkTo(["new"], { again: run.id }) }, "Again, with…");
    if (run.isOver) return [again, retryButton()];
    if (execution === "closed") return [again];
    const paused = status === "paused";
    return [
      h("button", { type: "button", class: paused ? "primary" : null, onclick: paused ? resume : pause }, paused ? "Go on" : "Pause"),
      h("button", { type: "button", onclick: adjust }, "Adjust…"),
      h("button", { type: "button", onclick: stop }, "Stop early"),
      h("button", { type: "button", class: "danger", onclick: cancel }, "Cancel"),
    ];
  }

  /** Only where there is something to retry, for whoever may; a run of somebody's plug-ins can be retried only beside them. */
  function retryButton() {
    if (!lacksAnswers(run) || caller === null || caller.role === "read") return null;
    const elsewhere = OF_PLUGINS.test(run.detail.spec?.execution?.evaluation_task_queue ?? "");
    const why = elsewhere ? `It needs its plug-ins: retry it where they are, by ratchet retry ${run.id}` : null;
    return h("button", { type: "button", onclick: retry, disabled: elsewhere, title: why }, "Retry what failed…", why ? h("span", { class: "unseen" }, ` ${why}`) : null);
  }

  draw();
  if (isLive) api.get("/session").then((found) => {
    caller = found;
    if (!closed) draw();
  }).catch(() => {}); // without an answer nothing is offered that may be refused
  const unsubscribe = subscribe((changed) => (changed.has("detail") || changed.has("trials")) && draw());
  return () => {
    closed = true;
    unsubscribe();
  };
}

/** Whether anything of a run that is over failed, or was never asked. */
const lacksAnswers = (run) => run.isOver && (run.detail.status !== "completed" || run.detail.counts.failed > 0 || run.missingAnswers > 0);

function adjustment(run, request) {
  const { budget, stop, limits, spend } = run.detail;
  const amount = (value) => (value ? String(value) : "");
  const fields = [
    { name: "cost", label: "Cost budget", path: "budget.cost", value: amount(budget.cost), hint: `spent: ${cost(spend.cost)}`, type: "number" },
    { name: "tokens", label: "Token budget", path: "budget.tokens", value: amount(budget.tokens), hint: `spent: ${whole(spend.tokens)}`, type: "number" },
    { name: "samples", label: "Call budget", path: "budget.samples", value: amount(budget.samples), hint: `spent: ${whole(spend.samples)}`, type: "number" },
    { name: "wall_time", label: "Time budget", path: "budget.wall_time", value: budget.wall_time ? duration(budget.wall_time).replaceAll(" ", "") : "", hint: "such as 90m or 2h" },
    { name: "max_rounds", label: "Rounds at most", path: "max_rounds", value: amount(stop.max_rounds), hint: `decided: ${run.detail.round}`, type: "number" },
    { name: "no_improvement", label: "Rounds without improvement", path: "no_improvement", value: amount(stop.no_improvement), type: "number" },
    { name: "score", label: "Score that is good enough", path: "score", value: stop.score === null ? "" : String(stop.score), type: "number" },
    { name: "concurrent_trials", label: "Trials side by side", path: "concurrent_trials", value: amount(limits.concurrent_trials), type: "number" },
    { name: "concurrent_samples", label: "Calls side by side", path: "concurrent_samples", value: amount(limits.concurrent_samples), type: "number" },
  ];
  return {
    title: "Adjust this run",
    body: ["Counts from now on. What you leave as it is stays; an empty budget or number of rounds is unlimited."],
    fields, confirm: "Adjust",
    act: (values) => request("adjust", changesOf(fields, values)),
  };
}

/** Only what is another value than before, as the API takes it. */
export function changesOf(fields, values) {
  const changes = {};
  for (const field of fields) {
    const given = values[field.name];
    if (given === field.value) continue;
    if (given === "" && ["score", "concurrent_trials", "concurrent_samples"].includes(field.name)) throw new Error(`${field.label}: give a number, or leave it as it was (${field.value || "none"}).`);
    const value = field.name === "wall_time" ? given || 0 : Number(given || 0);
    if (Number.isNaN(value)) throw new Error(`${field.label}: ${given} is no number.`);
    const [part, name] = field.path.split(".");
    if (name) changes[part] = { ...changes[part], [name]: value };
    else changes[part] = value;
  }
  if (!Object.keys(changes).length) throw new Error("Nothing is changed yet: give at least one other value.");
  return changes;
}
