// A text below its name, with a button that copies it.

import { copyButton } from "../copy_button.js";
import { h } from "../dom.js";
import { whole } from "../format.js";

const LONGEST = 20_000; // characters of one text that are drawn at once

/** A text below its name. */
export function block(name, text) {
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return h("div", { class: "text-block" },
    h("div", { class: "block-head" }, h("p", { class: "block-name" }, name), copyButton(text, name.toLowerCase())),
    h("pre", { tabindex: "0", role: "group", "aria-label": name }, shown),
    text.length > LONGEST ? h("p", { class: "soft" }, `${whole(text.length - LONGEST)} more characters; the API has them all.`) : null,
  );
}
