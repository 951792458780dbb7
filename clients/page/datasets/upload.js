// A button that brings a dataset into the store; who may only read has none.

import { h } from "../dom.js";
import { whole } from "../format.js";

/** `called` is the name that gets a new version, where it is one; `done(stored)` hears of what was stored. */
export function uploadButton(text, { api, announce }, { called = "", done }) {
  const button = h("button", { type: "button", hidden: true, onclick: upload }, text);
  api.get("/session").catch(() => null).then((caller) => (button.hidden = caller?.role === "read"));
  async function upload() {
    const { askForDataset } = await import("../start/dataset.js");
    const stored = await askForDataset({ api, called });
    if (!stored) return;
    announce(`Stored as ${stored.name}@${stored.version}: ${whole(stored.count)} samples`);
    done(stored);
  }
  return button;
}
