// One dataset: its samples, versions and what they differ in, splits and slices, the runs over it, and what says the same.

import { block } from "../detail/text_block.js";
import { choice, labelled } from "../detail/controls.js";
import { complaint, reading } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";
import { day, plain, whole } from "../format.js";
import { crumbs, empty, tableOf, tabLinks } from "../library/screen.js";
import { linkTo } from "../router.js";
import { addressOf } from "../source.js";
import { statusPill } from "../views/status.js";
import { uploadButton } from "./upload.js";

const TABS = { samples: "Samples", versions: "Versions", slices: "Splits and slices", runs: "Runs", copies: "Copies" };
const PAGE = 50;
const TYPED = 250; // milliseconds without a key before a search is made

export function mountDataset(element, { api, navigate, announce, id, options: given }) {
  let options = given, dataset = null, use = null;
  let giveUp = () => {};
  const steps = ["datasets", id];
  const path = (...more) => ["/datasets", ...[id, ...more].map(encodeURIComponent)].join("/");
  const go = (changes) => navigate(steps, { ...Object.fromEntries(options), ...changes }, { replace: true });
  const heading = h("h1", { tabindex: "-1" }, id.slice(0, 12));
  const facts = h("p", { class: "soft" });
  const failed = h("div", {});
  const tabs = h("div", {});
  const body = h("div", { class: "library-body" });
  const actions = h("div", { class: "buttons library-actions" });
  const notice = h("div", { class: "notices", role: "status" });
  replace(element, h("header", { class: "library-head" }, crumbs("datasets", "Datasets", id.slice(0, 12)), heading), facts, actions, notice, failed, tabs, body);

  const named = () => dataset.versions.map((one) => `${one.name}@${one.version}`).join(", ") || dataset.name;

  giveUp = reading(failed, (signal) => Promise.all([api.get(path(), { signal }), api.get(path("use"), { signal })]), ([found, used]) => {
    dataset = found;
    use = used;
    replace(failed);
    say(heading, named());
    document.title = `${named()} · Ratchet`;
    say(facts, `${whole(dataset.count)} samples · added ${day(dataset.created_at)} · ${whole(dataset.runs)} run${dataset.runs === 1 ? "" : "s"} · ${dataset.input_fields.length ? `fields ${dataset.input_fields.map((field) => field.value).join(", ")}` : "inputs are no objects"}`);
    drawActions();
    draw();
  });

  function drawActions() {
    const newest = [...dataset.versions].sort((one, other) => one.created_at.localeCompare(other.created_at)).at(-1);
    replace(actions,
      h("a", { class: "button", href: linkTo(["new"], { dataset: newest ? `${newest.name}@${newest.version}` : id }) }, "New run with this"),
      h("a", { class: "button", href: addressOf(path("download")), download: "" }, "Download JSONL"),
      newest ? uploadButton("New version…", { api, announce }, { called: newest.name, done: stored }) : null);
  }

  function stored(made) {
    if (made.dataset_id === id) return replace(notice, h("div", { class: "notice" }, `These are the same samples: they are ${made.name}@${made.version}.`));
    return navigate(["datasets", made.dataset_id], { tab: "versions" });
  }

  function draw() {
    giveUp();
    const tab = TABS[options.get("tab")] ? options.get("tab") : "samples";
    replace(tabs, tabLinks("Of this dataset", steps, TABS, tab));
    const key = `${tab} ${tab === "samples" ? "" : options}`;
    if (body.dataset.shown === key) return;
    body.dataset.shown = key;
    replace(body);
    giveUp = DRAW[tab]() ?? (() => {});
  }

  const DRAW = { samples: drawSamples, versions: drawVersions, slices: drawSlices, runs: drawRuns, copies: drawCopies };

  function drawSamples() {
    let after = null, turn = 0, timer = 0;
    const search = h("input", { id: "sample-search", type: "search", autocomplete: "off", placeholder: "id, input or expected", value: options.get("search") ?? "", oninput: () => (clearTimeout(timer), (timer = setTimeout(filter, TYPED))) });
    const pick = (name, title, values) => (values.length ? labelled(title, choice(name, [["", "all"], ...values.map((one) => [one.value, `${one.value} (${whole(one.samples)})`])], options.get(name) ?? "", (chosen) => ((wanted[name] = chosen), filter()))) : null);
    const wanted = { tag: options.get("tag") ?? "", split: options.get("split") ?? "" };
    const told = h("p", { class: "told", role: "status" });
    const hint = h("p", { class: "soft small", hidden: true }, "The contents of this store are encrypted: the search looks at the ids of samples alone.");
    const list = h("ol", { class: "sample-list" });
    const failure = h("div", {});
    const more = h("button", { type: "button", hidden: true, onclick: () => read() }, "Show more");
    replace(body, h("div", { class: "filters" }, h("div", { class: "wide" }, h("label", { for: search.id }, "Search"), search), pick("tag", "Tag", dataset.tags), pick("split", "Split", dataset.splits), told), hint, failure, list, h("div", { class: "buttons centred" }, more));

    function filter() {
      after = null;
      history.replaceState(null, "", linkTo(steps, { search: search.value.trim(), ...wanted }));
      read();
    }

    async function read() {
      const mine = ++turn, fresh = after === null;
      try {
        const page = await api.get(path("samples"), { query: { search: search.value.trim(), ...wanted, after, limit: PAGE } });
        if (mine !== turn) return;
        replace(failure);
        after = page.next_after;
        more.hidden = after === null;
        hint.hidden = !(page.searched === "ids" && search.value.trim());
        say(told, page.total === dataset.count ? `${whole(page.total)} samples` : `${whole(page.total)} of ${whole(dataset.count)} samples`);
        if (fresh) replace(list);
        list.hidden = page.total === 0;
        list.append(...page.items.map(sampleRow));
        if (!page.total) replace(failure, empty("No sample is like that", "Try another word, or all tags."));
      } catch (error) {
        if (mine === turn && error.status !== 401) replace(failure, complaint(error, read));
      }
    }
    read();
    return () => {
      turn = -1;
      clearTimeout(timer);
    };
  }

  function drawVersions() {
    const others = use.versions.filter((one) => one.dataset_id !== id);
    const against = options.get("against") ?? others[0]?.dataset_id ?? "";
    const place = h("section", { class: "card" });
    replace(body,
      h("div", { class: "card flush" }, tableOf("Versions", ["Version", "Samples", "Added", ""], use.versions.map((one) => [
        one.dataset_id === id ? h("strong", {}, `${one.name}@${one.version}`) : h("a", { href: linkTo(["datasets", one.dataset_id]) }, `${one.name}@${one.version}`),
        h("span", { class: "number" }, whole(one.count)), day(one.created_at), one.dataset_id === id ? h("span", { class: "pill", "data-kind": "accent" }, "this one") : "",
      ]))),
      others.length ? [h("div", { class: "choices" }, labelled("Compared with", choice("against", others.map((one) => [one.dataset_id, `${one.name}@${one.version}`]), against, (chosen) => go({ against: chosen })))), place] : h("p", { class: "soft" }, "There is no other version: the same name with other content makes one."));
    if (!others.length) return undefined;
    return reading(place, (signal) => api.get(path("differences"), { query: { against }, signal }), (found) => replace(place,
      h("h2", {}, "What differs"),
      h("p", {}, `${whole(found.added)} added, ${whole(found.removed)} removed, ${whole(found.changed)} changed under the same id; ${whole(found.same)} are the same.`),
      [["Changed", found.changed, found.changed_samples, changedList], ["Added", found.added, found.added_samples, namedList], ["Removed", found.removed, found.removed_samples, namedList]].filter(([, count]) => count).map(([title, count, samples, list]) => [h("h3", {}, title), list(samples), count > samples.length ? h("p", { class: "soft small" }, `And ${whole(count - samples.length)} more.`) : null])));
  }

  function drawSlices() {
    const counted = (title, values, told) => h("section", { class: "card" }, h("h2", {}, title), values.length ? tableOf(title, ["Value", "Samples"], values.map((one) => [h("span", { class: "mono" }, plain(one.value)), h("span", { class: "number" }, `${whole(one.samples)} (${Math.round((one.samples / dataset.count) * 100)}%)`)])) : h("p", { class: "soft" }, told));
    replace(body, h("div", { class: "library-columns" },
      counted("Splits that samples name", dataset.splits, "They name none: each run draws its own, as its spec says."),
      counted("Tags", dataset.tags, "They have none. Tags are slices; a spec can name fields of the input, too."),
      counted("Expected answers", dataset.expected, "None."),
      counted("Fields of the input", dataset.input_fields, "Inputs are no objects.")));
  }

  function drawRuns() {
    replace(body, use.runs.length ? h("div", { class: "card flush" }, tableOf("Runs", ["Run", "Status", "Started", "Splits it drew"], use.runs.map((run) => [
      [h("a", { href: linkTo(["runs", run.optimization_id]) }, run.name), h("div", { class: "mono soft small" }, run.optimization_id)], statusPill(run), day(run.started_at),
      Object.entries(run.splits).map(([split, count]) => `${split} ${whole(count)}`).join(", "),
    ]))) : empty("No run has used it yet", "A spec with ", h("code", {}, `dataset: {id: ${id.slice(0, 8)}…}`), " does."));
  }

  function drawCopies() {
    return reading(body, (signal) => api.get(path("copies"), { signal }), (found) => replace(body, found.groups
      ? [h("p", {}, `${whole(found.groups)} group${found.groups === 1 ? "" : "s"} of samples with the same input and expected answer: ${whole(found.extra)} add nothing. Runs count a group as one, and keep it in one split.`), found.items.map((group) => h("section", { class: "card" }, h("h2", {}, `${whole(group.count)} times the same`), namedList(group.samples)))]
      : empty("No two samples say the same", "Every one counts.")));
  }

  return {
    go(next) {
      options = next;
      if (dataset) draw();
    },
    unmount() {
      giveUp();
      document.title = "Ratchet";
    },
  };
}

function sampleRow(sample) {
  const body = h("div", { class: "sample-body", hidden: true });
  const head = h("button", { type: "button", class: "sample-head", "aria-expanded": "false", onclick: toggle },
    h("span", { class: "soft", "aria-hidden": "true" }, "▸"), h("span", { class: "sample-id" }, sample.item_id), h("span", { class: "excerpt soft" }, (typeof sample.input === "string" ? sample.input : JSON.stringify(sample.input)).slice(0, 300)),
    h("span", { class: "tags" }, [...sample.splits, ...sample.tags].map((tag) => h("span", { class: "pill" }, tag))));
  function toggle() {
    const open = body.hidden;
    body.hidden = !open;
    head.setAttribute("aria-expanded", String(open));
    if (open && !body.hasChildNodes()) replace(body, h("div", { class: "asked" }, block("Input", plain(sample.input)), sample.expected === null ? null : block("Expected", plain(sample.expected))), sample.weight === 1 ? null : h("p", { class: "soft small" }, `Weight ${sample.weight}`));
  }
  return h("li", { class: "sample" }, head, body);
}

const namedList = (samples) => h("ul", { class: "named-samples" }, samples.map((one) => h("li", {}, h("span", { class: "sample-id" }, one.item_id), " ", h("span", { class: "soft" }, (one.input ?? "").slice(0, 200)))));

/** What each sample said before, and what it says now, part by part. */
const changedList = (samples) => h("ul", { class: "changed-samples" }, samples.map((one) => h("li", {}, h("span", { class: "sample-id" }, one.item_id),
  one.changes === null ? h("p", { class: "soft small" }, "It is too long to be compared here.") : one.changes.map(({ part, before, after }) => h("p", { class: "value-change" },
    h("span", { class: "mono small" }, part), " ", said("del", "was ", before), h("span", { class: "soft", "aria-hidden": "true" }, " → "), said("ins", "is now ", after))))));

const said = (tag, unseen, text) => h(tag, {}, h("span", { class: "unseen" }, unseen), text || h("span", { class: "soft" }, "nothing"));
