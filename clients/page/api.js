// The server, asked. Every failure is a `Problem` whose message people can read.

import { request } from "./source.js";

/** Why there is no answer: `status` is HTTP's, 0 when the server was not reached. */
export class Problem extends Error {
  constructor(status, message, field = null, retryAfter = null) {
    super(message);
    this.status = status;
    this.field = field;
    this.retryAfter = retryAfter;
  }
}

/** What the server says to programs: people are shown a link instead. */
const API_PATH = /; GET \S.*? lists (those there are|some that it has)/g;

let signInAsked = () => {};

/** What to do when the server asks for its token. */
export function whenSignedOut(listener) {
  signInAsked = listener;
}

export const get = (path, options = {}) => ask("GET", withQuery(path, options.query), undefined, options.signal);
export const post = (path, body, { key, signal } = {}) => ask("POST", path, body ?? {}, signal, key);
export const put = (path, body) => ask("PUT", path, body);
export const remove = (path) => ask("DELETE", path);

/** The path of a run, or of something of it. */
export const ofRun = (id, ...rest) => ["/optimizations", ...[id, ...rest].map(encodeURIComponent)].join("/");

/** Exchange the server's token for a cookie that scripts cannot read. */
export const signIn = (token) => ask("POST", "/session", { token });

/** Open an event stream: a response whose body is read as it comes. */
export async function openStream(path, { lastEventId, signal }) {
  const headers = lastEventId ? { "Last-Event-ID": String(lastEventId) } : {};
  const response = await reached(path, { headers, signal, cache: "no-store" });
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function ask(method, path, body, signal, key) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const response = await reached(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  if (!response.ok) throw await problemOf(response);
  return response.status === 204 ? null : response.json();
}

async function reached(path, options) {
  try {
    return await request(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server cannot be reached. It may be starting again, or the network is down.");
  }
}

async function problemOf(response) {
  let told = null;
  try {
    told = await response.json();
  } catch {
    // not ours: a proxy's page, say
  }
  if (response.status === 401) signInAsked();
  const lines = (told?.problems?.length ? told.problems : [told?.error]).map((problem) => problem?.message).filter(Boolean);
  const message = lines.join("\n") || `The server answered ${response.status} ${response.statusText}`.trim();
  return new Problem(response.status, message.replace(API_PATH, ""), told?.error?.field ?? null, Number(response.headers.get("Retry-After")) || null);
}

function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
