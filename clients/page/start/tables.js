// A file of samples as people have them: JSONL, JSON, CSV or TSV, read in the browser so that it can be looked at first.

const ROLES = ["input", "expected", "id", "tags", "weight", "split"];

/** `{columns, rows}` of a file's text; each row is an object. What cannot be read is told with its line. */
export function tableOf(name, text) {
  const ending = name.toLowerCase().split(".").pop();
  const clean = text.replace(/^\ufeff/, "");
  const rows = ending === "csv" || ending === "tsv" || ending === "txt" ? csvRows(clean, ending === "tsv" ? "\t" : null) : jsonRows(clean);
  if (!rows.length) throw new Error("There is no sample in this file.");
  const columns = [...new Set(rows.slice(0, 1000).flatMap((row) => Object.keys(row)))];
  return { columns, rows };
}

/** What each column is most likely for. */
export function guessedRoles(columns) {
  if (columns.includes("input")) return Object.fromEntries(columns.map((column) => [column, ROLES.includes(column) ? column : "none"]));
  const answers = ["expected", "label", "answer", "output", "target", "category", "completion"];
  const answer = answers.map((word) => columns.find((column) => column.toLowerCase() === word)).find(Boolean);
  const special = { id: "id", tags: "tags", weight: "weight", split: "split" };
  return Object.fromEntries(columns.map((column) => [column, column === answer ? "expected" : special[column.toLowerCase()] ?? "input"]));
}

/** The samples that rows are, by the role of each column. */
export function samplesOf({ rows }, roles) {
  const of = (role) => Object.keys(roles).filter((column) => roles[column] === role);
  const inputs = of("input"), expected = of("expected"), tags = of("tags");
  if (!inputs.length) throw new Error("No column is the input: choose at least one.");
  const whole = inputs.length === 1 && inputs[0] === "input";
  return rows.map((row) => {
    const sample = { input: whole ? row.input : picked(row, inputs) };
    if (expected.length) sample.expected = expected.length === 1 ? row[expected[0]] ?? null : picked(row, expected);
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
const picked = (row, columns) => Object.fromEntries(columns.map((column) => [column, row[column] ?? null]));

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

function csvRows(text, separator) {
  const first = text.slice(0, (text.indexOf("\n") + 1 || text.length + 1) - 1);
  const count = (mark) => first.split(mark).length;
  const mark = separator ?? [",", ";", "\t"].reduce((best, one) => (count(one) > count(best) ? one : best));
  const [head, ...rest] = records(text, mark);
  if (!head || !rest.length) return [];
  const columns = head.map((name, place) => name.trim() || `column ${place + 1}`);
  return rest.map((cells, place) => {
    if (cells.length > columns.length) throw new Error(`Row ${place + 2} has ${cells.length} cells, the first row ${columns.length}. Put text with a ${mark === "\t" ? "tab" : mark} in it into quotes.`);
    return Object.fromEntries(columns.map((column, at) => [column, cells[at] ?? ""]));
  });
}

function records(text, mark) {
  const found = [];
  let cells = [], cell = "", quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') (cell += char), (at += 1);
      else quoted = false;
    } else if (char === '"' && cell === "") quoted = true;
    else if (char === mark) cells.push(cell), (cell = "");
    else if (char === "\n") {
      cells.push(cell.replace(/\r$/, ""));
      if (cells.length > 1 || cells[0] !== "") found.push(cells);
      (cells = []), (cell = "");
    } else cell += char;
  }
  if (quoted) throw new Error("A quote is opened and not closed.");
  if (cell || cells.length) found.push([...cells, cell]);
  return found;
}
