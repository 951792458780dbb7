// One prompt: what is in force, its versions and tags, what differs between any two, rendering, who released what, and its runs.

import { choice, labelled, roomyLayout } from "../detail/controls.js";
import { changesView } from "../detail/diff.js";
import { reading } from "../detail/reading.js";
import { h, replace } from "../dom.js";
import { capital, day, plain, whole, words } from "../format.js";
import { crumbs, empty, tableOf, tabLinks } from "../library/screen.js";
import { linkTo } from "../router.js";
import { rulingQuestion } from "../views/release_questions.js";
import { statusPill } from "../views/status.js";
import { moveStableQuestion, promoteQuestion } from "./moves.js";
import { mountRender } from "./render.js";

const TABS = { content: "Content", versions: "Versions and tags", compare: "Compare", render: "Render", releases: "Releases", runs: "Runs" };
const SOURCE = "source";
const CANARY = "canary";
const DECIDED = { released: "good", accepted: "good", pending: "warn", rejected: "bad", expired: "bad", stale_base: "bad", failed: "bad" };

export function mountPrompt(element, { api, navigate, id, options: given }) {
  let options = given, prompt = null, mayRelease = false;
  let giveUp = () => {};
  const steps = ["prompts", id];
  const path = (...more) => ["/prompts", ...[id, ...more].map(encodeURIComponent)].join("/");
  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });
  const head = h("header", { class: "library-head" }, crumbs("prompts", "Prompts", id), h("h1", { tabindex: "-1" }, id));
  const tags = h("p", { class: "pills" });
  const notice = h("div", { class: "notices", role: "status" });
  const tabs = h("div", {});
  const body = h("div", { class: "library-body" });
  const failed = h("div", {});
  replace(element, head, tags, notice, failed, tabs, body);
  document.title = `${id} · Ratchet`;

  const states = () => [...prompt.tags.filter((tag) => !tag.temporary).map((tag) => tag.tag), ...prompt.versions.map((one) => one.version)];
  const first = () => (prompt.tags.some((tag) => tag.tag === "stable") ? "stable" : states()[0]);
  const choices = (extra = []) => [...extra, ...prompt.tags.map((tag) => [tag.tag, `${tag.tag}${tag.version ? ` (${tag.version})` : ""}`]), ...prompt.versions.map((one) => [one.version, one.version])];

  function read() {
    giveUp();
    giveUp = reading(failed, (signal) => Promise.all([api.get(path(), { signal }), api.get("/session", { signal })]), ([found, caller]) => {
      prompt = found;
      mayRelease = ["release", "admin"].includes(caller.role);
      replace(failed);
      replace(tags, prompt.tags.filter((tag) => !tag.temporary).map((tag) => h("span", { class: "pill", "data-kind": tag.tag === "stable" ? "accent" : null }, `${tag.tag} → ${tag.version ?? tag.hash.slice(0, 12)}`)));
      draw();
    });
  }

  function draw() {
    giveUp();
    const tab = TABS[options.get("tab")] ? options.get("tab") : "content";
    replace(tabs, tabLinks("Of this prompt", steps, TABS, tab));
    if (body.dataset.tab !== tab) replace(body);
    body.dataset.tab = tab;
    giveUp = DRAW[tab]() ?? (() => {});
  }

  async function moved(question) {
    const told = await question;
    if (!told) return;
    const { text, isGood } = typeof told === "string" ? { text: told, isGood: /released/.test(told) } : told;
    replace(notice, h("div", { class: "notice", "data-kind": isGood ? "good" : "warn" }, text));
    read();
  }

  const DRAW = { content: drawContent, versions: drawVersions, compare: drawCompare, render: () => mountRender(body, { api, path, choices: choices(), at: options.get("at") ?? first(), go, options }), releases: drawReleases, runs: drawRuns };

  function drawContent() {
    const at = options.get("at") ?? first();
    const place = h("div", { class: "library-body" });
    replace(body, h("div", { class: "choices" }, labelled("As put in force by", choice("at", offering(choices(), at), at, (chosen) => go({ at: chosen })))), place);
    return reading(place, (signal) => api.get(path("content"), { query: { at }, signal }), (found) => replace(place,
      h("p", { class: "soft small" }, `Changed ${day(found.at.at)} by ${found.at.by || "nobody named"}${found.at.why ? `: ${found.at.why}` : ""} · revision ${found.at.revision} · ${whole(found.tokens)} tokens · hash `, h("span", { class: "mono" }, found.at.hash.slice(0, 12))),
      found.description ? h("p", {}, found.description) : null,
      found.sections.map(sectionOf),
      found.parameters.length ? h("section", { class: "card" }, h("h2", {}, "Parameters"), tableOf("Parameters", ["Name", "Value", "Range", ""], found.parameters.map((one) => [
        h("span", { class: "mono" }, one.name), h("span", { class: "mono" }, plain(one.value)), h("span", { class: "soft" }, rangeOf(one.domain)), one.overridden ? h("span", { class: "pill", "data-kind": "accent" }, "changed") : "",
      ]))) : null,
    ));
  }

  function drawVersions() {
    const lasting = prompt.tags.filter((tag) => !tag.temporary), temporary = prompt.tags.length - lasting.length;
    const history = h("div", {});
    const at = (version) => lasting.filter((tag) => tag.version === version).map((tag) => h("span", { class: "pill", "data-kind": "accent" }, tag.tag));
    const canary = lasting.find((tag) => tag.tag === CANARY);
    const stable = prompt.versions.findIndex((one) => one.version === lasting.find((tag) => tag.tag === "stable")?.version);
    replace(body,
      h("section", { class: "card" },
        h("div", { class: "card-head" }, h("h2", {}, "Tags"), mayRelease && canary ? h("button", { type: "button", onclick: () => moved(promoteQuestion(api, path, id, canary)) }, "Release the canary…") : null),
        lasting.length ? tableOf("Tags", ["Tag", "Version", "Changed", "By", "Why", ""], lasting.map((tag) => [
          h("strong", {}, tag.tag), tag.version ?? h("span", { class: "mono" }, tag.hash.slice(0, 12)), day(tag.at), tag.by, tag.why || words(tag.action), h("button", { type: "button", onclick: () => showHistory(tag.tag) }, "History"),
        ])) : h("p", { class: "soft" }, "No tag stands anywhere; versions are below."),
        temporary ? h("p", { class: "soft small" }, `${whole(temporary)} more of candidates under evaluation.`) : null, history),
      h("section", { class: "card" }, h("h2", {}, "Versions"),
        prompt.versions.length ? tableOf("Versions", ["Version", "Made", "By", "Why", ""], prompt.versions.map((one, place) => [
          [h("strong", {}, one.version), " ", at(one.version)], day(one.at), one.by, one.why || words(one.action),
          h("span", { class: "buttons" },
            place + 1 < prompt.versions.length ? h("a", { href: linkTo(steps, { tab: "compare", before: prompt.versions[place + 1].version, after: one.version }) }, "What changed") : null,
            mayRelease && !lasting.some((tag) => tag.tag === "stable" && tag.version === one.version) ? h("button", { type: "button", onclick: () => moved(moveStableQuestion(api, path, id, one.version, place < stable)) }, place < stable ? "Move forward to it…" : "Roll back to it…") : null),
        ])) : h("p", { class: "soft" }, "No versions yet; the first release makes one.")),
    );
    function showHistory(tag) {
      giveUp();
      giveUp = reading(history, (signal) => api.get(path("history"), { query: { tag }, signal }), (found) => replace(history, h("h3", {}, `Every state of ${tag}`),
        tableOf(`History of ${tag}`, ["Revision", "Version", "When", "By", "Why"], found.map((one) => [String(one.revision), one.deleted ? "(deleted)" : one.version ?? h("span", { class: "mono" }, one.hash.slice(0, 12)), day(one.at), one.by, one.why || words(one.action)]))));
    }
  }

  function drawCompare() {
    const before = options.get("before") ?? SOURCE, after = options.get("after") ?? first();
    const layout = options.get("layout") ?? roomyLayout();
    const place = h("div", { class: "card" });
    const all = choices([[SOURCE, "source, as its author wrote it"]]);
    replace(body, h("div", { class: "choices" },
      labelled("Before", choice("before", offering(all, before), before, (chosen) => go({ before: chosen }))), labelled("After", choice("after", offering(all, after), after, (chosen) => go({ after: chosen }))),
      labelled("Shown", choice("layout", [["split", "Side by side"], ["unified", "As one text"]], layout, (chosen) => go({ layout: chosen })))), place);
    const unknown = [before, after].find((one) => !all.some(([known]) => known === one));
    if (unknown) return replace(place, h("p", { class: "problem", role: "alert" }, `This prompt has no tag or version ${unknown}. Choose another one.`)) && undefined;
    return reading(place, (signal) => api.get(path("differences"), { query: { before, after }, signal }), (found) => replace(place,
      found.change_class ? h("p", {}, h("span", { class: "pill", "data-kind": found.change_class === "major" ? "warn" : null }, `${found.change_class} change`), h("span", { class: "soft" }, ` ${found.differences.map((one) => `${one.factor}: ${one.change}`).join("; ")}`)) : null,
      changesView(found.differences, { layout, from: before, to: after, heading: "h2" })));
  }

  function drawReleases() {
    replace(body, prompt.releases.length ? h("div", { class: "card flush" }, tableOf("Releases", ["Asked", "Tag", "Kind", "Status", "Version", "By", "Why", ""], prompt.releases.map((one) => [
      day(one.asked_at), one.tag, one.kind, h("span", { class: "pill", "data-kind": DECIDED[one.status] }, one.status === "pending" ? "waits for approval" : words(one.status)),
      `${one.base_version ?? "new"} → ${one.version ?? "?"}`, [...new Set([one.asked_by, one.decided_by].filter(Boolean))].join(" / "), one.comment || one.reason || one.message,
      h("span", { class: "buttons" }, one.run_id ? h("a", { href: linkTo(["runs", one.run_id]) }, "Its run") : null, mayRelease && one.status === "pending" && one.run_id ? [["approve", "Approve…"], ["reject", "Reject…"]].map(([ruling, text]) => h("button", { type: "button", class: ruling === "reject" ? "danger" : null, onclick: () => moved(rulingQuestion({ id: one.run_id }, api, one, ruling)) }, text)) : null),
    ]))) : empty("Nothing was released yet", "A run with ", h("code", {}, "release"), " in its spec asks for one; ", h("code", {}, "ratchet release RUN"), " does, too."));
  }

  function drawRuns() {
    replace(body, prompt.runs.length ? h("div", { class: "card flush" }, tableOf("Runs", ["Run", "Status", "Started", "What it had to do with it"], prompt.runs.map((run) => [
      [h("a", { href: linkTo(["runs", run.optimization_id]) }, run.name), h("div", { class: "mono soft small" }, run.optimization_id)], statusPill(run), day(run.started_at),
      capital([run.began_with_it ? "began with it" : null, run.released ? "its winner was to be released" : null].filter(Boolean).join(", ") || "names it for a release"),
    ]))) : empty("No run has touched it yet", "A spec with ", h("code", {}, `prompt: ${id}`), " begins with what its tag puts in force."));
  }

  read();
  return {
    go(next) {
      options = next;
      if (prompt) draw();
    },
    unmount() {
      giveUp();
      document.title = "Ratchet";
    },
  };
}

/** Choices with the chosen one among them, also where it is not there. */
const offering = (entries, chosen) => (entries.some(([value]) => value === chosen) ? entries : [[chosen, `${chosen} (not there)`], ...entries]);

function sectionOf(section) {
  return h("section", { class: "card prompt-section" },
    h("div", { class: "card-head" }, h("h2", { class: "mono" }, section.path),
      h("span", { class: "pills" }, h("span", { class: "soft small" }, `${section.kind} · ${whole(section.tokens)} tokens`),
        section.frozen ? h("span", { class: "pill" }, "frozen") : null, section.overridden ? h("span", { class: "pill", "data-kind": "accent" }, "overridden") : null)),
    h("pre", { tabindex: "0", role: "group", "aria-label": section.path }, plain(section.value)));
}

function rangeOf(domain) {
  if (domain.type === "number" || domain.type === "integer") return `${domain.min} … ${domain.max}`;
  if (domain.type === "choice") return `one of ${domain.choices.map(plain).join(", ")}`;
  return domain.type;
}
