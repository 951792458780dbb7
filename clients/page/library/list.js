// A list with a search and pages: what prompts and datasets have in common.

import { complaint } from "../detail/reading.js";
import { h, replace, say } from "../dom.js";
import { whole } from "../format.js";
import { linkTo } from "../router.js";
import { empty, tableOf } from "./screen.js";

const PAGE = 50;
const TYPED = 250; // milliseconds without a key before a search is made

/** `columns` and `row(item)` make the table; `nothing` says what to do where there is nothing at all; `action` stands beside the title. */
export function mountList(element, { api, options }, { place, path, title, hint, columns, row, nothing, word, action = null }) {
  let items = [], closed = false, turn = 0, timer = 0;
  const search = h("input", { id: `${place}-search`, type: "search", placeholder: hint, autocomplete: "off", value: options.get("search") ?? "", oninput: () => (clearTimeout(timer), (timer = setTimeout(filter, TYPED))) });
  const told = h("p", { class: "told", role: "status" });
  const body = h("div", { class: "library-body" });
  const more = h("button", { type: "button", hidden: true, onclick: () => read() }, "Show more");
  replace(element, h("div", { class: "title" }, h("h1", { tabindex: "-1" }, title), action ? h("div", { class: "end" }, action) : null),
    h("div", { class: "filters" }, h("div", { class: "wide" }, h("label", { for: search.id }, "Search"), search), told),
    body, h("div", { class: "buttons centred" }, more));

  function filter() {
    history.replaceState(null, "", linkTo([place], { search: search.value.trim() }));
    items = [];
    read();
  }

  async function read() {
    const mine = ++turn;
    try {
      const page = await api.get(path, { query: { search: search.value.trim(), offset: items.length, limit: PAGE } });
      if (closed || mine !== turn) return;
      items = [...items, ...page.items];
      more.hidden = items.length >= page.total;
      say(told, `${whole(page.total)} ${word}${page.total === 1 ? "" : "s"}`);
      if (items.length) replace(body, h("div", { class: "card flush" }, tableOf(title, columns, items.map(row))));
      else replace(body, search.value.trim() ? empty(`No ${word} is called like that`, "Try a part of the name.") : nothing);
    } catch (error) {
      if (!closed && mine === turn && error.status !== 401) replace(body, complaint(error, read));
    }
  }

  read();
  return {
    unmount() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
