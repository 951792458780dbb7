// Images that an input or a factor names by their content, small.

import { h } from "../dom.js";
import { imageAt } from "../source.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const MOST_IMAGES = 20; // of one value

/** Every image within a value; nothing where it has none, or a report left them out. `name` says what the value is. */
export function imagesOf(value, name) {
  const shown = namedIn(value).slice(0, MOST_IMAGES).map(([place, digest]) => [place, imageAt(digest)]).filter(([, at]) => at);
  return shown.length ? h("p", { class: "images" }, shown.map(([place, src]) => h("img", { src, alt: place ? `${name} ${place}` : name, loading: "lazy" }))) : null;
}

function namedIn(value, place = "") {
  if (value === null || typeof value !== "object") return [];
  const digest = typeof value.$file === "string" ? /^sha256:([0-9a-f]{64})$/.exec(value.$file) : null;
  if (digest) return IMAGES.has(value.type) ? [[place, digest[1]]] : [];
  return Object.entries(value).flatMap(([name, part]) => namedIn(part, place ? `${place}.${name}` : name));
}
