// The only way this page makes elements: text becomes text nodes, never markup. What people and models wrote is data.

const SVG = "http://www.w3.org/2000/svg";
const REFUSED = new Set(["innerHTML", "outerHTML", "srcdoc", "style"]);
const SAFE_IMAGE = /^(\/v1\/private\/files\/[0-9a-f]{64}$|data:image\/(png|jpeg|gif|webp);base64,)/;
const SAFE_LINK = /^(#|\/(?!\/)|https?:\/\/|[\w-]+\.html(#|$))/; // the last are files of a report beside each other

/** An HTML element: `h("a", {href: "#/", class: "soft", onclick: go}, "Runs")`. Children: text, nodes, arrays; null is nothing. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Put children in the place of those that an element has. */
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isSomething).map(node));
  return element;
}

/** Characters that nobody sees but that change what is seen around them, such as those that turn the direction of writing. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb]/g;

/** Text in which such characters are named: `<U+202E>`. */
export const visible = (text) => String(text).replace(UNSEEN, (found) => `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

/** Give an element's text, only when it is another one: what has not changed is not announced again. */
export function say(element, text) {
  const seen = visible(text);
  if (element.textContent !== seen) element.textContent = seen;
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...children.flat(Infinity).filter(isSomething).map(node));
  return element;
}

function set(element, name, value) {
  if (REFUSED.has(name)) throw new Error(`${name} is not set here: it would be markup`);
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    if (typeof value !== "function") throw new Error(`${name} needs a function`);
    element.addEventListener(name.slice(2), value);
  } else if (name === "href" && !SAFE_LINK.test(value)) {
    throw new Error("only links to this page and to http(s) are made");
  } else if (name === "src" && !SAFE_IMAGE.test(value)) {
    throw new Error("only images of samples are shown");
  } else if (name === "value" || name === "checked" || name === "disabled" || name === "selected" || name === "hidden") {
    element[name] = value;
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

const isSomething = (child) => child !== null && child !== undefined && child !== false;
const node = (child) => (child instanceof Node ? child : document.createTextNode(visible(child)));
