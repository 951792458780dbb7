// What may stand where the cursor is, by the spec's JSON Schema. YAML is read as far as people write it: by its indents.

const LONGEST_LIST = 40;

/** `{from, items}`: what to put in the place of the text from `from` to the cursor; null where nothing is known. */
export function completions(schema, text, cursor) {
  if (!schema) return null;
  const before = text.slice(0, cursor);
  const lines = before.split("\n");
  const line = lines[lines.length - 1];
  if (/^\s*#|\s#/.test(line)) return null;
  const place = inFlow(line) ?? inBlock(line);
  if (!place) return null;
  const path = [...pathAbove(lines, place.indent, place.dash), ...place.inner];
  const siblings = place.siblings ?? siblingsOf(text.split("\n"), lines.length - 1, place.indent);
  const parts = chosen(walked(schema, path), siblings, schema);
  const found = place.key === null ? keysOf(parts, siblings, schema) : valuesOf(parts, place.key, schema);
  const fitting = found.filter((item) => item.text.toLowerCase().startsWith(place.typed.toLowerCase()));
  const items = (fitting.length ? fitting : found.filter((item) => place.typed && item.text.toLowerCase().includes(place.typed.toLowerCase()))).slice(0, LONGEST_LIST);
  if (!items.length || (items.length === 1 && items[0].text === place.typed)) return null;
  return { from: cursor - place.typed.length, items: items.map((item) => ({ ...item, insert: place.key === null ? `${item.text}: ` : item.text })) };
}

function inBlock(line) {
  const key = /^(\s*)((?:- +)*)([\w./:-]*)$/.exec(line);
  if (key) return { indent: key[1].length + key[2].length, dash: key[2] ? key[1].length : null, inner: [], key: null, typed: key[3] };
  const value = /^(\s*)((?:- +)*)([\w./-]+):\s+(?:"?)([\w./-]*)$/.exec(line);
  if (value) return { indent: value[1].length + value[2].length, dash: value[2] ? value[1].length : null, inner: [], key: value[3], typed: value[4] };
  return null;
}

/** Inside of `{…` on one line. */
function inFlow(line) {
  const open = line.lastIndexOf("{");
  if (open < 0 || line.indexOf("}", open) >= 0 || (line[open + 1] === "{" || line[open - 1] === "{")) return null;
  const head = /^(\s*)((?:- +)*)(?:([\w./-]+):\s*)?(\[)?[^{]*$/.exec(line.slice(0, open));
  if (!head) return null;
  const said = line.slice(open + 1).split(",");
  const last = said.pop();
  const siblings = new Map(said.map((part) => part.split(":").map((side) => side.trim())).map(([name, value]) => [name, unquoted(value ?? "")]));
  const inner = [...(head[3] ? [head[3]] : []), ...(head[4] ? [null] : [])];
  const place = { indent: head[1].length + head[2].length, dash: head[2] ? head[1].length : null, inner, siblings };
  const key = /^\s*([\w./-]*)$/.exec(last);
  if (key) return { ...place, key: null, typed: key[1] };
  const value = /^\s*([\w./-]+):\s*"?([\w./-]*)$/.exec(last);
  return value ? { ...place, key: value[1], typed: value[2] } : null;
}

const unquoted = (value) => value.replace(/^["']|["']$/g, "");
const LINE = /^(\s*)((?:- +)*)(?:([^\s#:"'{[][^:#]*|"[^"]*"):(?=\s|$))?/;

/** The keys above a place, from the outermost; null is an item of a list. */
function pathAbove(lines, indent, dash) {
  const path = [];
  let limit = indent, list = null;
  if (dash !== null) path.unshift(null), (limit = dash), (list = dash);
  for (let at = lines.length - 2; at >= 0 && (limit > 0 || list !== null); at -= 1) {
    const line = lines[at];
    if (!line.trim() || /^\s*#/.test(line)) continue;
    const [, blanks, dashes, key] = LINE.exec(line);
    const column = blanks.length + dashes.length;
    if (list !== null ? !dashes && blanks.length <= list : !dashes && column < limit) {
      if (key) path.unshift(unquoted(key.trim()));
      (limit = blanks.length), (list = null);
    } else if (dashes && blanks.length < limit && list === null) {
      if (column < limit && key) path.unshift(unquoted(key.trim()));
      path.unshift(null);
      (limit = blanks.length), (list = blanks.length);
    }
  }
  return path;
}

/** What the mapping around a place says already. */
function siblingsOf(lines, at, indent) {
  const found = new Map();
  const look = (from, step) => {
    for (let place = from; place >= 0 && place < lines.length; place += step) {
      const line = lines[place];
      if (!line.trim() || /^\s*#/.test(line)) continue;
      const [whole, blanks, dashes, key] = LINE.exec(line);
      const column = blanks.length + dashes.length;
      if (column < indent && !(dashes && column === indent)) return;
      if (step > 0 && dashes && blanks.length < indent) return;
      if (column === indent && key) found.set(unquoted(key.trim()), unquoted(line.slice(whole.length).replace(/\s+#.*/, "").replace(/^:?\s*/, "").trim()));
      if (step < 0 && dashes && blanks.length < indent) return;
    }
  };
  if (!/^\s*- /.test(lines[at])) look(at - 1, -1);
  look(at + 1, 1);
  return found;
}

const isObject = (part) => part !== null && typeof part === "object";

/** The schemas that a part may be of, its references followed. */
function flat(part, root, depth = 0) {
  if (!isObject(part) || depth > 12) return [];
  if (part.$ref) return flat({ ...part, ...root.$defs?.[part.$ref.split("/").pop()], $ref: undefined }, root, depth + 1);
  const options = [...(part.anyOf ?? []), ...(part.oneOf ?? []), ...(part.allOf ?? [])];
  const own = part.properties || part.items || part.additionalProperties || part.enum || part.const !== undefined || part.type ? [part] : [];
  return [...own, ...options.flatMap((option) => flat(option, root, depth + 1))];
}

function walked(root, path) {
  return path.reduce((parts, step) => parts.flatMap((part) => flat(step === null ? part.items : part.properties?.[step] ?? part.additionalProperties, root)), flat(root, root));
}

/** Those schemas that agree with what is said already, such as the `kind`. */
function chosen(parts, siblings, root) {
  const agrees = (part) => [...siblings].every(([name, value]) => {
    const told = part.properties?.[name];
    const allowed = flat(told, root).flatMap((option) => option.enum ?? (option.const !== undefined ? [option.const] : []));
    return !value || !allowed.length || !["kind", "name", "change", "type"].includes(name) || allowed.map(String).includes(value);
  });
  const fitting = parts.filter(agrees);
  return fitting.length ? fitting : parts;
}

function keysOf(parts, siblings, root) {
  const found = new Map();
  for (const part of parts) {
    for (const [name, of] of Object.entries(part.properties ?? {})) {
      if (siblings.has(name) || found.has(name)) continue;
      const options = flat(of, root);
      const kinds = [...new Set(options.map((option) => option.type ?? (option.enum ? "choice" : "")).filter((kind) => kind && kind !== "null"))];
      found.set(name, { text: name, told: part.required?.includes(name) ? `${kinds.join(" or ")} · required` : kinds.join(" or "), description: of.description ?? options[0]?.description ?? "" });
    }
  }
  return [...found.values()];
}

function valuesOf(parts, key, root) {
  const found = new Map();
  for (const part of parts) {
    const of = part.properties?.[key] ?? part.additionalProperties;
    for (const option of flat(of, root)) {
      const values = option.enum ?? (option.const !== undefined ? [option.const] : option.type === "boolean" ? [true, false] : []);
      for (const value of values) if (value !== null && !found.has(String(value))) found.set(String(value), { text: String(value), told: value === of?.default ? "default" : "", description: (option.enum ? of?.description : part.description) ?? "" });
    }
  }
  return [...found.values()];
}
