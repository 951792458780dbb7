// Things that are read for a view when it is opened: what is asked for, what failed, and another try.

import { h, replace } from "../dom.js";
import { linkTo } from "../router.js";

const PATIENCE = 250; // milliseconds before anybody is told that something is being read

/**
 * Ask for something and draw it into an element; until there is an answer what was drawn before stays.
 * `ask(signal)` gives a promise, `draw(found)` draws. Returns what gives up.
 */
export function reading(element, ask, draw) {
  const given = new AbortController();
  const slow = setTimeout(() => {
    element.setAttribute("aria-busy", "true");
    if (!element.hasChildNodes()) replace(element, h("p", { class: "soft" }, "Loading…"));
  }, PATIENCE);
  const done = () => {
    clearTimeout(slow);
    element.removeAttribute("aria-busy");
  };
  ask(given.signal).then(
    (found) => {
      if (given.signal.aborted) return;
      done();
      draw(found);
    },
    (problem) => {
      if (given.signal.aborted) return;
      done();
      replace(element, complaint(problem, () => reading(element, ask, draw)));
    },
  );
  return () => {
    done();
    given.abort();
  };
}

/** Where those are that there are, by what an unknown name was to name. */
const LISTS = { optimization_id: ["runs", "All runs"], prompt: ["prompts", "All prompts"], dataset_id: ["datasets", "All datasets"] };

/** What went wrong, in words, with a button that tries again; of what is not there, with a link to those that are. */
export function complaint(problem, again) {
  const [place, title] = (problem.status === 404 && LISTS[problem.field]) || [];
  return h("div", {},
    h("p", { class: "problem", role: "alert" }, problem.message),
    place ? h("p", {}, h("a", { href: linkTo([place]) }, title)) : h("button", { type: "button", onclick: again }, "Try again"),
  );
}
