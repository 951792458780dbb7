// Where the answers of a report come from: the file itself, which has them by their paths. It stands in the place of source.js.

export const isLive = false;

/**
 * `written_at`, the server's `answers` as they were then, and `runs` by their ids with `gates`, `figures` and `edits`. Where it is
 * about one of them, its `run_id`; where it is one file of several, `home` or `files`, which name the others; and `pairs`.
 */
export const report = JSON.parse(document.getElementById("report").textContent);

/** Where an image of a sample is shown from, by its sha256; null where the file has it not inside. */
export const imageAt = (digest) => report.answers[`/files/${digest}`] ?? null;

const PARTS = new Set(["offset", "limit", "only", "before"]); // these choose from an answer
const SAME = new Set(["spec", "since", "trials"]); // these would shorten or lengthen it
const LEFT_OUT = "This report does not have that. With --verbosity full it holds more; the page of the run has it all.";

/** There is no server from which anything could be kept. */
export const addressOf = () => "#";

/** As `fetch` would answer. */
export async function request(path, { method = "GET" } = {}) {
  if (method !== "GET") return answered(405, { error: { message: "A report only shows: it is no server." } });
  const [place, text] = path.split("?", 2);
  const query = new URLSearchParams(text);
  const found = report.answers[keyOf(decodeURIComponent(place), query)];
  return found === undefined ? answered(404, { error: { message: LEFT_OUT } }) : answered(200, partOf(found, query, place));
}

const answered = (status, body) => new Response(JSON.stringify(body), { status });

function keyOf(place, query) {
  const all = place.endsWith("/slices/scores") || place.endsWith("/proposals"); // the file has those of all
  const named = [...query].filter(([name]) => !PARTS.has(name) && !SAME.has(name) && !(all && (name === "candidate" || name === "round")));
  return named.length ? `${place}?${named.sort(([one], [other]) => (one < other ? -1 : Number(one > other))).map(([name, value]) => `${name}=${value}`).join("&")}` : place;
}

function partOf(answer, query, place) {
  if (!Array.isArray(answer.items)) return answer;
  const number = (name, missing) => (query.has(name) ? Number(query.get(name)) : missing);
  const only = query.get("only"), before = number("before", Infinity);
  const [round, candidate] = place.endsWith("/proposals") ? [query.get("round"), query.get("candidate")] : [];
  const fitting = answer.items.filter((one) => (!only || one.turn === only) && !(one.id >= before)
    && (!round || String(one.round) === round) && (!candidate || one.candidate_ids.includes(candidate)));
  const first = number("offset", 0), until = first + number("limit", fitting.length);
  const total = only ? answer.counts[only] : round || candidate ? fitting.length : answer.total;
  return { ...answer, total, items: fitting.slice(first, until), has_more: until < fitting.length };
}
