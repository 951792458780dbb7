// What people said of a run, its candidates and their answers: read once, and changed here. No decision reads it.

import { ofRun } from "../api.js";
import { isLive } from "../source.js";

const MOST = 1000; // that one reading gives

/** The marks of a run. A subject is `{}` for the run, `{candidate_id}`, or `{candidate_id, item_id, replicate}`. */
export function marksOfRun(run, api) {
  let items = [], caller = null, loading = null, known = false;
  const listeners = new Set();
  const key = ({ candidate_id: candidate, item_id: item, replicate }) => JSON.stringify([candidate ?? null, item ?? null, replicate ?? null]);

  function tell() {
    for (const listener of [...listeners]) if (!listener()) listeners.delete(listener);
  }

  async function load() {
    const found = [];
    for (;;) {
      const page = await api.get(ofRun(run.id, "marks"), { query: { offset: found.length, limit: MOST } });
      found.push(...page.items);
      if (page.items.length < MOST) break;
    }
    if (isLive) caller ??= await api.get("/session").catch(() => null); // what is wrong then is told by the answer to a wish
    items = found;
    known = true;
    tell();
  }

  return {
    /** Whether they were read. */
    get isKnown() {
      return known;
    },
    get mayMark() {
      return isLive && caller?.role !== "read";
    },
    mayChange: (mark) => isLive && caller?.role !== "read" && (mark.kind !== "note" || caller === null || caller.role === "admin" || caller.name === mark.who),
    on: (subject) => items.filter((mark) => key(mark) === key(subject)),
    read: () => (loading ??= load().catch(() => (loading = null))),
    /** `listener()` says whether it still wants to hear. */
    subscribe: (listener) => listeners.add(listener),
    async add(subject, kind, text = "") {
      const mark = await api.post(ofRun(run.id, "marks"), { ...subject, kind, text });
      items = [...items.filter(({ number }) => number !== mark.number), mark];
      tell();
    },
    async change(number, text) {
      const mark = await api.put(ofRun(run.id, "marks", String(number)), { text });
      items = items.map((one) => (one.number === number ? mark : one));
      tell();
    },
    async remove(number) {
      await api.remove(ofRun(run.id, "marks", String(number)));
      items = items.filter((one) => one.number !== number);
      tell();
    },
  };
}
