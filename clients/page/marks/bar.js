// A pin, tags and notes beside what they are on, and the buttons that make them.

import { h, replace } from "../dom.js";
import { ago, day } from "../format.js";
import { ask } from "../views/dialogs.js";

/** Everything that is said of a subject; `name` is what it is called for those who do not see it. Its line keeps its room until it is known. */
export function marksBar(marks, subject, name) {
  const said = h("div", { class: "marks-line" });
  const notes = h("ul", { class: "notes", "aria-label": `Notes on ${name}` });
  const problem = h("p", { class: "problem", role: "alert" });
  const element = h("div", { class: "marks", role: "group", "aria-label": `Marks of ${name}` }, said, notes, problem);
  let seen = false;

  async function wish(act) {
    replace(problem);
    try {
      await act();
    } catch (error) {
      replace(problem, error.message);
    }
  }

  const again = (label) => element.querySelector(`[data-wish="${label}"]`)?.focus();

  async function write(mark = null) {
    await ask({
      title: mark ? "Change the note" : `A note on ${name}`,
      body: ["Whoever sees this run sees it, with your name. No decision reads it."],
      fields: [{ name: "text", label: "Note", value: mark?.text ?? "", required: true, wide: true, lines: 5 }],
      confirm: "Keep",
      act: async ({ text }) => (mark ? marks.change(mark.number, text) : marks.add(subject, "note", text)),
    });
    again("note");
  }

  async function tag() {
    await ask({
      title: `A tag on ${name}`,
      fields: [{ name: "text", label: "Tag", required: true, wide: true, hint: "One or two words; the search finds it." }],
      confirm: "Add", act: async ({ text }) => marks.add(subject, "tag", text),
    });
    again("tag");
  }

  function draw() {
    if (!marks.isKnown) return;
    const found = marks.on(subject), may = marks.mayMark;
    const pin = found.find(({ kind }) => kind === "pin"), tags = found.filter(({ kind }) => kind === "tag");
    const focused = element.contains(document.activeElement) ? document.activeElement.dataset.wish : null;
    element.hidden = !may && !found.length;
    replace(said,
      may ? h("button", { type: "button", class: "quiet small", "data-wish": "pin", "aria-pressed": String(Boolean(pin)), title: pin ? `Pinned by ${pin.who}` : null,
        onclick: () => wish(() => (pin ? marks.remove(pin.number) : marks.add(subject, "pin"))) }, h("span", { "aria-hidden": "true" }, pin ? "★" : "☆"), pin ? "Pinned" : "Pin")
        : pin ? h("span", { class: "pill", "data-kind": "accent", title: `By ${pin.who}` }, "★ pinned") : null,
      tags.map((mark) => h("span", { class: "pill tag", title: `${mark.who}, ${day(mark.at)}` }, mark.text,
        may ? h("button", { type: "button", class: "link", "aria-label": `Remove the tag ${mark.text}`, onclick: () => wish(() => marks.remove(mark.number)).then(() => again("tag")) }, "×") : null)),
      may ? h("button", { type: "button", class: "quiet small", "data-wish": "tag", onclick: tag }, "+ Tag") : null,
      may ? h("button", { type: "button", class: "quiet small", "data-wish": "note", onclick: () => write() }, "+ Note") : null,
    );
    replace(notes, found.filter(({ kind }) => kind === "note").map((mark) => h("li", {},
      h("p", { class: "note-text" }, mark.text),
      h("p", { class: "soft small" }, `${mark.who}, `, h("time", { datetime: mark.at, title: day(mark.at) }, ago(mark.at)), mark.changed_at ? ", changed" : "",
        marks.mayChange(mark) ? [" · ", h("button", { type: "button", class: "link small", onclick: () => write(mark) }, "Change"), " · ",
          h("button", { type: "button", class: "link small", onclick: () => wish(() => marks.remove(mark.number)).then(() => again("note")) }, "Remove")] : null))));
    if (focused) again(focused);
  }

  marks.subscribe(() => {
    seen ||= element.isConnected;
    if (seen && !element.isConnected) return false;
    draw();
    return true;
  });
  draw();
  marks.read();
  return element;
}
