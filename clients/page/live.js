// Live events of the server, read as they come: resumed after the last one that was seen, replaced by polling while there is no
// stream, and never silently old.

import { openStream } from "./api.js";

const SILENCE = 40_000; // the server says something every 15 s
const OPENING = 10_000;
const POLL_EVERY = 5_000;
const FIRST_PAUSE = 500;
const HIDDEN_FOR = 60_000; // then a tab that nobody sees gives its connection back
const SETTLED = 5_000; // a stream that ends sooner did not work

/**
 * Follow a stream until `close()`.
 * `onEvent({id, type, data})` in order, each once; `poll()` asks for the same news another way, and throws when it cannot;
 * `onState(kind)`: `connecting`, `live`, `polling` (no stream, but news), `lost` (neither), `resting` (nobody looks), `gone` (404).
 */
export function follow(path, { after = 0, onEvent, onState, poll }) {
  let closed = false;
  let last = after;
  let state = "";
  let current = null;
  let wake = () => {};

  const tell = (kind) => {
    if (closed || kind === state) return;
    state = kind;
    onState(kind);
  };
  const wait = (time) => new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    wake = () => (clearTimeout(timer), resolve());
  });

  async function readOnce() {
    current = new AbortController();
    const watch = watchdog(current, OPENING);
    try {
      const response = await openStream(path, { lastEventId: last, signal: current.signal });
      for await (const event of eventsOf(response.body, () => (watch.fed(SILENCE), tell("live")))) {
        if (closed) return;
        if (event.id !== null) last = event.id;
        onEvent(event);
      }
    } finally {
      watch.stop();
    }
  }

  async function run() {
    let failures = 0;
    tell("connecting");
    while (!closed) {
      if (resting) {
        tell("resting");
        await seen();
        continue;
      }
      const begun = Date.now();
      try {
        await readOnce();
      } catch (error) {
        if (closed) return;
        if (error.status === 404) return tell("gone");
        if (error.status === 401) {
          tell("lost");
          await wait(POLL_EVERY);
          continue;
        }
      }
      if (closed) return;
      if (resting) continue;
      failures = state === "live" && Date.now() - begun > SETTLED ? 1 : failures + 1;
      if (failures === 1) tell("connecting");
      await wait(FIRST_PAUSE);
      if (failures > 1) {
        tell(await works(poll) ? "polling" : "lost");
        await wait(POLL_EVERY);
      }
    }
  }

  let resting = false;
  let hiding = 0;
  let whenSeen = () => {};
  const seen = () => (document.hidden ? new Promise((resolve) => (whenSeen = resolve)) : Promise.resolve());
  const looked = () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => ((resting = true), current?.abort()), HIDDEN_FOR);
    } else {
      resting = false;
      whenSeen();
    }
  };
  const again = () => wake();
  document.addEventListener("visibilitychange", looked);
  window.addEventListener("online", again);
  run();

  return {
    /** Try again now, instead of at the next turn. */
    again,
    close() {
      closed = true;
      clearTimeout(hiding);
      document.removeEventListener("visibilitychange", looked);
      window.removeEventListener("online", again);
      current?.abort();
      wake();
      whenSeen();
    },
  };
}

/** Server-sent events out of bytes. `onBytes` hears of everything that comes, heartbeats included. */
export async function* eventsOf(body, onBytes = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = eventOf(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
  if (!fields.event) return null;
  return { id: fields.id === undefined ? null : Number(fields.id), type: fields.event, data: JSON.parse(fields.data ?? "{}") };
}

function watchdog(controller, first) {
  let timer = setTimeout(() => controller.abort(), first);
  return {
    fed(time) {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), time);
    },
    stop: () => clearTimeout(timer),
  };
}

async function works(attempt) {
  try {
    await attempt();
    return true;
  } catch {
    return false;
  }
}
