// The spec that is being written: this tab keeps it until a run of it has begun.

const DRAFT = "ratchet-draft";
const STARTED = "ratchet-draft-started";

/** Keep what is written now; it is no longer what a run was started from. */
export const keepDraft = (text) => whereKept(() => {
  sessionStorage.setItem(DRAFT, text);
  sessionStorage.removeItem(STARTED);
});

/** What was written last; empty where there is nothing. */
export const keptDraft = () => whereKept(() => sessionStorage.getItem(DRAFT)) ?? "";

/** A run was started from it, which may still be refused. */
export const noteStarted = (id) => whereKept(() => sessionStorage.setItem(STARTED, id));

/** What a run was started from; null once it has begun, or something else was written. */
export const draftOf = (id) => whereKept(() => (sessionStorage.getItem(STARTED) === id ? sessionStorage.getItem(DRAFT) : null));

/** A run has begun: it keeps its spec itself. */
export function forgetDraftOf(id) {
  if (draftOf(id) === null) return;
  whereKept(() => {
    sessionStorage.removeItem(DRAFT);
    sessionStorage.removeItem(STARTED);
  });
}

function whereKept(act) {
  try {
    return act() ?? null;
  } catch {
    return null; // storage is off or full: the text lasts as long as the page
  }
}
