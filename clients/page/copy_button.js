// A button that copies a text; where the browser copies nothing, as over plain HTTP, there is none.

import { h, say } from "./dom.js";

const TOLD = 2000; // milliseconds

/** `text` is the text, or what gives it; `name` says what is copied, for those who do not see where the button stands. */
export function copyButton(text, name) {
  if (!navigator.clipboard) return null;
  const word = h("span", {}, "Copy");
  const unseen = h("span", { class: "unseen", role: "status" });
  return h("button", {
    type: "button", class: "quiet small", "aria-label": `Copy ${name}`, onclick: async () => {
      const done = await navigator.clipboard.writeText(typeof text === "function" ? text() : text).then(() => "Copied", () => "Not copied: the browser refused");
      say(word, done);
      say(unseen, done);
      setTimeout(() => (say(word, "Copy"), say(unseen, "")), TOLD);
    },
  }, word, unseen);
}
