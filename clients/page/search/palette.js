// One field that finds runs, prompts, datasets, candidates, tags and notes, from wherever one is.

import { h, replace, say } from "../dom.js";
import { words } from "../format.js";

const AFTER = 120; // milliseconds without a key
const KINDS = { run: "Run", prompt: "Prompt", dataset: "Dataset", candidate: "Candidate", tag: "Tag", note: "Note", place: "Go to" };
const PLACES = [{ kind: "place", text: "New run", steps: ["new"] }, { kind: "place", text: "All runs", steps: ["runs"] }];

let open = null;

/** Open it, unless it is open. */
export function openSearch({ api, navigate }) {
  if (open || document.querySelector("dialog[open]")) return;
  let found = PLACES, at = 0, timer = 0, asking = null;
  const list = h("ul", { id: "search-list", role: "listbox", "aria-label": "What was found" });
  const told = h("p", { class: "soft small", role: "status" });
  const field = h("input", {
    id: "search-field", type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "search-list", "aria-autocomplete": "list", "aria-label": "Search runs, prompts, datasets, candidates, tags and notes",
    placeholder: "Search runs, prompts, datasets, notes", autocomplete: "off", oninput: typed, onkeydown: pressed,
  });
  const dialog = (open = h("dialog", { class: "search", "aria-label": "Search" }, field, list, told));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asking?.abort();
    dialog.remove();
    open = null;
  });
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  draw();

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(look, AFTER);
  }

  async function look() {
    const word = field.value.trim();
    asking?.abort();
    if (!word) return show(PLACES, "");
    const mine = (asking = new AbortController());
    try {
      const { items } = await api.get("/search", { query: { q: word.slice(0, 200) }, signal: mine.signal });
      if (asking === mine) show(items, items.length ? `${items.length} found` : "Nothing is called like that. Candidates are found by how they begin.");
    } catch (error) {
      if (error.name !== "AbortError") show([], error.message);
    }
    return undefined;
  }

  function show(items, text) {
    found = items;
    at = 0;
    draw();
    say(told, text);
  }

  function draw() {
    replace(list, found.map((item, number) => h("li", { id: `search-${number}`, role: "option", "aria-selected": String(number === at), onclick: () => go(number), onmousemove: () => at !== number && ((at = number), mark()) },
      h("span", { class: "pill" }, KINDS[item.kind]), h("span", { class: "search-text" }, item.text),
      h("span", { class: "soft small search-of" }, [item.run_id, item.kind === "candidate" ? null : item.candidate_id, item.item_id, item.status ? words(item.status) : null, item.who].filter(Boolean).join(" · ")))));
    mark();
  }

  function mark() {
    [...list.children].forEach((option, number) => option.setAttribute("aria-selected", String(number === at)));
    if (found.length) field.setAttribute("aria-activedescendant", `search-${at}`);
    else field.removeAttribute("aria-activedescendant");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      mark();
    } else if (event.key === "Enter" && found.length) {
      event.preventDefault();
      go(at);
    }
  }

  function go(number) {
    const { kind, steps, run_id: run, candidate_id: candidate, item_id: item, prompt, dataset_id: dataset } = found[number];
    dialog.close();
    if (kind === "place") return navigate(steps);
    if (kind === "prompt") return navigate(["prompts", prompt]);
    if (kind === "dataset") return navigate(["datasets", dataset]);
    if (!candidate) return navigate(["runs", run]);
    if (item) return navigate(["runs", run, "matrix"], { item, answer: candidate });
    return navigate(["runs", run, "candidates", candidate]);
  }
}

/** The button in the frame, and the keys that open it. */
export function searchButton(context) {
  const keys = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘K" : "Ctrl K";
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openSearch(context);
    }
  });
  return h("button", { type: "button", class: "quiet search-open", onclick: () => openSearch(context) }, h("span", { "aria-hidden": "true" }, "⌕"), h("span", { class: "search-word" }, "Search"), h("kbd", { "aria-hidden": "true" }, keys));
}
