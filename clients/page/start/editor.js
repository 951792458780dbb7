// A text with line numbers, what is wrong beside its line, and what may be written next. The text itself is a plain textarea.

import { h, replace, say } from "../dom.js";
import { completions } from "./completion.js";

const LINE = 20; // pixels, as in start.css
const TYPED = /[\w:./-]/;
let count = 0;

/** `{element, text(), set(text), show(findings), goTo(line), learn(schema), focus()}`; `changed()` hears of every other text. */
export function editor({ label, changed }) {
  const id = `editor-${++count}`;
  let schema = null, offered = null, at = 0, findings = [];
  const numbers = h("pre", { class: "editor-numbers" });
  const gutter = h("div", { class: "editor-gutter", "aria-hidden": "true" }, numbers);
  const marks = h("div", { class: "editor-marks", "aria-hidden": "true" });
  const probe = h("span", { class: "editor-probe", "aria-hidden": "true" }, "0".repeat(20));
  const list = h("ul", { class: "editor-list", id: `${id}-list`, role: "listbox", "aria-label": "What may be written here", hidden: true });
  const told = h("p", { class: "editor-told small soft", hidden: true });
  const popup = h("div", { class: "editor-popup", hidden: true }, list, told);
  const spoken = h("p", { class: "unseen", role: "status" });
  const area = h("textarea", {
    id, "aria-label": label, "aria-describedby": `${id}-hint`, "aria-autocomplete": "list", "aria-controls": `${id}-list`, wrap: "off", spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    oninput: typed, onkeydown: pressed, onscroll: scrolled, onblur: close, onclick: close,
  });
  const hint = h("p", { class: "unseen", id: `${id}-hint` }, "Control and Space offers what may be written here.");
  const element = h("div", { class: "editor" }, gutter, h("div", { class: "editor-page" }, marks, area, probe, popup), spoken, hint);

  function typed(event) {
    redraw();
    changed();
    const char = event.data ?? "";
    if (event.inputType?.startsWith("insert") && (char === "" || TYPED.test(char) || char === " ") && char.length <= 1 && event.inputType !== "insertLineBreak") offer(false);
    else close();
  }

  function redraw() {
    const lines = area.value.split("\n").length;
    say(numbers, Array.from({ length: lines }, (_, line) => line + 1).join("\n"));
    drawMarks();
  }

  function drawMarks() {
    const lines = area.value.split("\n");
    const width = probe.getBoundingClientRect().width / 20;
    const worst = new Map();
    for (const finding of findings) if (finding.line && finding.line <= lines.length && (!worst.has(finding.line) || finding.severity === "error")) worst.set(finding.line, finding);
    replace(marks, [...worst].map(([line, finding]) => {
      const said = h("span", { class: "editor-said" }, finding.message);
      const mark = h("div", { class: "editor-mark", "data-kind": finding.severity }, said);
      mark.style.top = `${(line - 1) * LINE}px`;
      said.at = (columnOf(lines[line - 1]) + 3) * width;
      return mark;
    }));
    for (const dot of [...gutter.querySelectorAll(".editor-dot")]) dot.remove();
    for (const [line, finding] of worst) {
      const dot = h("span", { class: "editor-dot", "data-kind": finding.severity }, finding.severity === "error" ? "✕" : "!");
      dot.style.top = `${(line - 1) * LINE}px`;
      numbers.append(dot);
    }
    scrolled();
  }

  function scrolled() {
    numbers.style.transform = `translateY(${-area.scrollTop}px)`;
    marks.style.transform = `translateY(${-area.scrollTop}px)`;
    for (const { firstChild: said } of marks.children) said.style.left = `${said.at - area.scrollLeft}px`;
    if (offered) place();
  }

  function offer(asked) {
    const text = area.value, cursor = area.selectionStart;
    const line = text.slice(text.lastIndexOf("\n", cursor - 1) + 1, cursor);
    const rest = text.slice(cursor).split("\n", 1)[0];
    const found = (asked || line.trim()) && /^\s*([,}\]].*)?$/.test(rest) ? completions(schema, text, cursor) : null;
    if (!found) {
      if (asked) say(spoken, "Nothing is known to go here.");
      return close();
    }
    offered = found;
    at = 0;
    draw();
    return place();
  }

  function draw() {
    list.hidden = popup.hidden = false;
    replace(list, offered.items.map((item, number) => h("li", { id: `${id}-${number}`, role: "option", "aria-selected": String(number === at), onmousedown: (event) => (event.preventDefault(), take(number)) }, h("span", {}, item.text), item.told ? h("span", { class: "soft small" }, item.told) : null)));
    area.setAttribute("aria-activedescendant", `${id}-${at}`);
    const { description, text } = offered.items[at];
    told.hidden = !description;
    say(told, description);
    say(spoken, `${text}${description ? `: ${description}` : ""}, ${at + 1} of ${offered.items.length}`);
    const { offsetTop: top, offsetHeight: height } = list.children[at];
    list.scrollTop = Math.min(Math.max(list.scrollTop, top + height - list.clientHeight + 4), top - 4);
  }

  function place() {
    const before = area.value.slice(0, offered.from);
    const line = before.split("\n").length;
    const width = probe.getBoundingClientRect().width / 20;
    const left = columnOf(before.slice(before.lastIndexOf("\n") + 1)) * width + 12 - area.scrollLeft;
    popup.style.left = `${Math.max(4, Math.min(left, area.clientWidth - popup.offsetWidth - 8))}px`;
    const top = line * LINE + 10 - area.scrollTop;
    const above = top + popup.offsetHeight > area.clientHeight && top - LINE - popup.offsetHeight > 0;
    popup.style.top = `${above ? top - LINE - popup.offsetHeight - 2 : top + 2}px`;
  }

  function close() {
    offered = null;
    list.hidden = popup.hidden = true;
    area.removeAttribute("aria-activedescendant");
  }

  function take(number) {
    const { from } = offered, { insert } = offered.items[number];
    close();
    area.setSelectionRange(from, area.selectionStart);
    write(insert);
  }

  /** As if it were typed, so that it can be undone. */
  function write(text) {
    area.focus();
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
      redraw();
      changed();
    }
  }

  function pressed(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === " ") {
      event.preventDefault();
      return offer(true);
    }
    if (offered) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        at = (at + step + offered.items.length) % offered.items.length;
        return draw();
      }
      if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) {
        event.preventDefault();
        return take(at);
      }
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        return close();
      }
      if (["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"].includes(event.key)) close();
    }
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const before = area.value.slice(0, area.selectionStart);
      const line = before.slice(before.lastIndexOf("\n") + 1);
      const indent = /^\s*/.exec(line)[0] + (/^\s*(- +)*[\w./-]+:\s*[|>]?-?\s*$/.test(line) ? "  " : "") + " ".repeat(/^\s*((?:- +)*)/.exec(line)[1].length);
      event.preventDefault();
      write(`\n${indent}`);
    }
    return undefined;
  }

  return {
    element,
    area,
    text: () => area.value,
    set(text) {
      area.value = text;
      findings = [];
      redraw();
    },
    show(found) {
      findings = found;
      drawMarks();
    },
    learn: (found) => (schema = found),
    goTo(line) {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
      area.focus();
      area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
      area.scrollTop = Math.max(0, (line - 5) * LINE);
      area.scrollLeft = 0;
      scrolled();
    },
  };
}

/** How many cells of a fixed font a text takes, tabs as the browser draws them. */
function columnOf(text) {
  let column = 0;
  for (const char of text) column += char === "\t" ? 8 - (column % 8) : char.codePointAt(0) > 0x2e7f ? 2 : 1;
  return column;
}
