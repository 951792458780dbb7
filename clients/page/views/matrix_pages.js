// The pages of a matrix that were read: those in sight are asked for, those seen longest ago are forgotten.

const PAGE = 50;
const MOST_KEPT = 30;
const SETTLED = 80; // milliseconds without scrolling before rows are asked for

/** `ask(query, signal)` reads a page; `onread(answer)` hears of each, `onproblem(error)` of what failed. */
export function matrixPages(ask, onread, onproblem) {
  const pages = new Map();
  let asking = new Map();
  let timer = 0;

  async function read(page) {
    if (pages.has(page) || asking.has(page)) return;
    const giveUp = new AbortController();
    asking.set(page, giveUp);
    try {
      const answer = await ask({ ...placeOf(page), limit: PAGE }, giveUp.signal);
      if (giveUp.signal.aborted) return;
      pages.set(page, answer.items);
      for (const oldest of pages.keys()) if (pages.size > MOST_KEPT && oldest !== page) pages.delete(oldest);
      onread(answer);
    } catch (error) {
      if (!giveUp.signal.aborted) onproblem(error);
    } finally {
      if (asking.get(page) === giveUp) asking.delete(page);
    }
  }

  /** Behind the nearest page before it that is known, so that what changes meanwhile moves nothing. */
  function placeOf(page) {
    let before = page - 1;
    while (before >= 0 && !pages.get(before)?.length) before--;
    if (before < 0) return { after: null, skip: page * PAGE || null };
    return { after: pages.get(before).at(-1).position, skip: (page - before - 1) * PAGE || null };
  }

  function forget() {
    clearTimeout(timer);
    asking.forEach((giveUp) => giveUp.abort());
    asking = new Map();
    pages.clear();
  }

  return {
    row(number) {
      return pages.get(Math.floor(number / PAGE))?.[number % PAGE] ?? null;
    },
    /** Which row the sample is for which `is(row)`, among those that are known. */
    numberOf(is) {
      for (const [page, rows] of pages) {
        const place = rows.findIndex(is);
        if (place >= 0) return page * PAGE + place;
      }
      return null;
    },
    /** Rows that are in sight: what is missing of them is asked for, once scrolling rests. */
    need(first, last) {
      clearTimeout(timer);
      const missing = [];
      for (let page = Math.floor(first / PAGE); page * PAGE < last; page++) if (!pages.has(page)) missing.push(page);
      if (missing.length) timer = setTimeout(() => missing.forEach(read), pages.size ? SETTLED : 0);
    },
    read, forget,
  };
}
