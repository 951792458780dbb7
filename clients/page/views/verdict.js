// What the run comes to, as it was confirmed; how it ended; and the release that waits for a word.

import { scale } from "../chart_parts.js";
import { h, replace, s } from "../dom.js";
import { ago, capital, signed, words } from "../format.js";
import { isLive } from "../source.js";
import { rulingQuestion, winnerQuestion } from "./release_questions.js";

const OUTCOME = { better: "good", not_worse: "good", unproven: "warn", unconfirmed: "warn" };
const RELEASED = ["better", "not_worse", "unconfirmed"];
const ENDED = { completed: "good", failed: "bad", cancelled: "warn", terminated: "bad" };

export function mount(element, { run, api, subscribe }, tell) {
  let shown = "";
  function draw() {
    const { status, execution, headline } = run.detail;
    const state = JSON.stringify([status, execution, headline, run.releases]);
    if (state === shown) return;
    shown = state;
    replace(element, result(run.detail, isLive && run.isOver ? releases() : null), ending(run), run.releases.map((release) => released(release)));
    const comes = !element.children.length && !run.isOver;
    if (comes) replace(element, h("p", { class: "soft" }, "What the run comes to will stand here."));
    element.toggleAttribute("data-comes", comes);
    element.hidden = !element.children.length;
  }

  async function moved(question) {
    const answer = await question;
    if (answer) {
      tell("good", answer);
      run.read().catch(() => {});
    }
  }

  /** What may be done with a winner; a release that waits is ruled on first. */
  function releases() {
    if (!RELEASED.includes(run.detail.headline.outcome) || run.releases.some(({ status }) => status === "pending")) return null;
    return h("div", { class: "buttons" }, [["Release…", false], ["As a canary…", true]].map(([text, canary]) => h("button", { type: "button", onclick: () => moved(winnerQuestion(run, api, { canary })) }, text)));
  }

  function released(release) {
    const waits = release.status === "pending";
    const rule = (ruling) => moved(rulingQuestion(run, api, release, ruling));
    const kind = { released: "good", accepted: "good", pending: "warn", rejected: "bad", expired: "bad", stale_base: "bad", failed: "bad" }[release.status];
    return h("div", { class: "verdict release" },
      h("h3", {}, "Release ", h("span", { class: "pill", "data-kind": kind }, waits ? "waits for approval" : words(release.status))),
      h("p", {}, h("span", { class: "mono" }, release.prompt), " → tag ", h("span", { class: "mono" }, release.tag), release.version ? ` (version ${release.version})` : ""),
      release.message ? h("p", { class: "soft" }, release.message) : null,
      Object.keys(release.changes ?? {}).length ? h("p", { class: "soft" }, `Changes ${Object.keys(release.changes).join(", ")}.`) : null,
      release.decided_by ? h("p", { class: "soft" }, `${capital(words(release.status))} by ${release.decided_by}${release.comment ? `: ${release.comment}` : ""}`) : null,
      waits ? h("p", { class: "soft" }, `Asked ${ago(release.asked_at)}.${release.approvers?.length ? ` May approve: ${release.approvers.join(", ")}.` : ""}`) : null,
      waits && isLive ? h("div", { class: "buttons" },
        h("button", { type: "button", class: "primary", onclick: () => rule("approve") }, "Approve…"),
        h("button", { type: "button", class: "danger", onclick: () => rule("reject") }, "Reject…")) : null,
    );
  }

  draw();
  return subscribe((changed) => (changed.has("detail") || changed.has("releases")) && draw());
}

function ending(run) {
  const { status, execution, stop_reason: reason, message } = run.detail;
  if (run.isOver) {
    return h("div", { class: "verdict" },
      h("h3", {}, "Ended ", h("span", { class: "pill", "data-kind": ENDED[status] }, words(reason ?? status))),
      message ? h("p", { class: status === "failed" || status === "terminated" ? "problem" : "soft" }, message) : null);
  }
  if (execution === "closed") {
    return h("div", { class: "verdict" }, h("h3", {}, "Ended ", h("span", { class: "pill", "data-kind": "bad" }, "from outside")),
      h("p", { class: "soft" }, "Its workflow was terminated or timed out, so it could not finish by itself. What it had found is kept."));
  }
  return null;
}

/** What the run comes to, in the server's words; nothing while it goes on. */
function result({ headline, confirmation }, buttons) {
  if (headline.outcome === "open") return null;
  const evidence = confirmation?.judged?.evidence;
  const beside = [["", headline.why], ["In the search: ", headline.in_search.words]].filter(([, text]) => text);
  return h("div", { class: "verdict" },
    h("h3", {}, "Result ", headline.brief ? h("span", { class: "pill", "data-kind": OUTCOME[headline.outcome] }, headline.brief) : null),
    h("p", { class: "leads" }, headline.words),
    evidence && !evidence.refused ? effectBar(evidence) : null,
    beside.map(([name, text]) => h("p", { class: "soft" }, name, text)),
    headline.caution ? h("p", { class: "warn" }, headline.caution) : null,
    buttons,
  );
}

/** The gain with its interval on a line through zero; positive is better, whatever the direction. */
export function effectBar({ effect, low, high, confidence, margin }) {
  const [width, height] = [280, 46];
  const reach = Math.max(Math.abs(low), Math.abs(high), margin ?? 0, 1e-9) * 1.12;
  const x = scale(-reach, reach, [4, width - 4]);
  const kind = low > 0 ? "good" : high < 0 ? "bad" : "open";
  const label = `Gain ${signed(effect)}, ${Math.round(confidence * 100)}% interval from ${signed(low)} to ${signed(high)}`;
  return h("figure", { class: "effect" },
    s("svg", { class: "chart", role: "img", viewBox: `0 0 ${width} ${height}`, "aria-label": label },
      s("line", { class: "grid", x1: 4, x2: width - 4, y1: 16, y2: 16 }),
      s("line", { class: "zero", x1: x.at(0), x2: x.at(0), y1: 4, y2: 28 }),
      s("text", { class: "tick middle", x: x.at(0), y: 42 }, "0"),
      s("line", { class: `effect-interval ${kind}`, x1: x.at(low), x2: x.at(high), y1: 16, y2: 16 }),
      s("circle", { class: `effect-point ${kind}`, cx: x.at(effect), cy: 16, r: 5.5 }),
    ),
    h("figcaption", { class: "small soft" }, `gain ${signed(effect)} [${signed(low)}, ${signed(high)}]`),
  );
}
