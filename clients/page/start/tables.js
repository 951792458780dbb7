// A file of samples as people have them: JSONL, JSON, CSV or TSV, read in the browser so that it can be looked at first.

const ROLES = ["input", "expected", "id", "tags", "weight", "split"];

/** `{columns, rows, notes}` of a file's text; each row is an object. What cannot be read is told with its line, and so is what was amended. */
export function tableOf(name, text) {
  const ending = name.toLowerCase().split(".").pop();
  const clean = text.replace(/^\ufeff/, "");
  const notes = [];
  const rows = ending === "csv" || ending === "tsv" || ending === "txt" ? csvRows(clean, ending === "tsv" ? "\t" : null, notes) : jsonRows(clean);
  if (!rows.length) throw new Error("There is no sample in this file.");
  const columns = [...new Set(rows.slice(0, 1000).flatMap((row) => Object.keys(row)))];
  return { columns, rows, notes };
}

/** What each column is most likely for. */
export function guessedRoles(columns) {
  if (columns.includes("input")) return Object.fromEntries(columns.map((column) => [column, ROLES.includes(column) ? column : "none"]));
  const answers = ["expected", "label", "answer", "output", "target", "category", "completion"];
  const answer = answers.map((word) => columns.find((column) => column.toLowerCase() === word)).find(Boolean);
  const special = { id: "id", tags: "tags", weight: "weight", split: "split" };
  return Object.fromEntries(columns.map((column) => [column, column === answer ? "expected" : special[column.toLowerCase()] ?? "input"]));
}

/** What a placeholder can name: the column's own name where it can, else one made of its letters. */
export function fieldName(column) {
  if (/^[\p{L}\p{N}_./:-]+$/u.test(column)) return column;
  return column.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_+|_+$/g, "") || "column";
}

/** Whether the samples' input is what stands in the column `input`, and not a mapping of fields. */
export const isWhole = (roles) => Object.keys(roles).filter((column) => roles[column] === "input").join() === "input";

/** The samples that rows are, by the role of each column, and by the names of those that are fields. */
export function samplesOf({ rows }, roles, names = {}) {
  const of = (role) => Object.keys(roles).filter((column) => roles[column] === role);
  const inputs = of("input"), expected = of("expected"), tags = of("tags");
  if (!inputs.length) throw new Error("No column is the input: choose at least one.");
  const whole = isWhole(roles);
  for (const columns of [whole ? [] : inputs, expected.length > 1 ? expected : []]) refuseTwice(columns, names);
  return rows.map((row) => {
    const sample = { input: whole ? row.input : picked(row, inputs, names) };
    if (expected.length) sample.expected = expected.length === 1 ? row[expected[0]] ?? null : picked(row, expected, names);
    const [id] = of("id"), [weight] = of("weight"), [split] = of("split");
    if (id && given(row[id])) sample.id = String(row[id]);
    if (weight && given(row[weight])) sample.weight = Number(row[weight]);
    if (split && given(row[split])) sample.split = String(row[split]);
    const named = tags.flatMap((column) => (Array.isArray(row[column]) ? row[column] : String(row[column] ?? "").split(/[,;]/))).map((tag) => String(tag).trim()).filter(Boolean);
    if (named.length) sample.tags = named;
    return sample;
  });
}

const given = (value) => value !== undefined && value !== null && value !== "";
const picked = (row, columns, names) => Object.fromEntries(columns.map((column) => [names[column] ?? column, row[column] ?? null]));

function refuseTwice(columns, names) {
  const known = new Map();
  for (const column of columns) {
    const name = names[column] ?? column;
    if (!name) throw new Error(`The column ${column} needs a name.`);
    if (known.has(name)) throw new Error(`${known.get(name)} and ${column} would both be called ${name}: give one another name.`);
    known.set(name, column);
  }
}

function jsonRows(text) {
  if (/^\s*\[/.test(text)) return parsed(text, null).map((row, place) => objectOf(row, `Item ${place + 1}`));
  const lines = text.split("\n").map((line, place) => [line.trim(), place + 1]).filter(([line]) => line);
  return lines.map(([line, number]) => objectOf(parsed(line, number), `Line ${number}`));
}

function parsed(text, line) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(line === null ? `This is not JSON: ${error.message}` : `Line ${line} is not JSON: ${error.message}. Write one JSON object a line.`);
  }
}

function objectOf(value, where) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error(`${where} is no JSON object.`);
  return value;
}

function csvRows(text, separator, notes) {
  const first = text.slice(0, (text.indexOf("\n") + 1 || text.length + 1) - 1);
  const count = (mark) => first.split(mark).length;
  const mark = separator ?? [",", ";", "\t"].reduce((best, one) => (count(one) > count(best) ? one : best));
  const [head, ...rest] = records(text, mark);
  if (!head || !rest.length) return [];
  const columns = head.cells.map((name, place) => name.trim() || `column ${place + 1}`);
  const short = rest.filter(({ cells }) => cells.length < columns.length);
  if (short.length) {
    const [{ cells, line }] = short;
    notes.push(`Line ${line} has ${cells.length} of ${columns.length} cells${short.length > 1 ? `, and ${short.length - 1} more line${short.length > 2 ? "s have" : " has"} too few` : ""}: what is missing stays empty. Missing here: ${columns.slice(cells.length).join(", ")}.`);
  }
  return rest.map(({ cells, line }) => {
    if (cells.length > columns.length) throw new Error(`Line ${line} has ${cells.length} cells, the first one ${columns.length}. Put text with a ${mark === "\t" ? "tab" : mark} in it into quotes.`);
    return Object.fromEntries(columns.map((column, at) => [column, cells[at] ?? ""]));
  });
}

/** Records with the line on which each begins: a text in quotes may have several. */
function records(text, mark) {
  const found = [];
  let cells = [], cell = "", quoted = false, line = 1, first = 1;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === "\n") line += 1;
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') (cell += char), (at += 1);
      else quoted = false;
    } else if (char === '"' && cell === "") quoted = true;
    else if (char === mark) cells.push(cell), (cell = "");
    else if (char === "\n") {
      cells.push(cell.replace(/\r$/, ""));
      if (cells.length > 1 || cells[0] !== "") found.push({ cells, line: first });
      (cells = []), (cell = ""), (first = line);
    } else cell += char;
  }
  if (quoted) throw new Error("A quote is opened and not closed.");
  if (cell || cells.length) found.push({ cells: [...cells, cell], line: first });
  return found;
}
