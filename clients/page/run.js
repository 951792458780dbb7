// One run as the page knows it: read once in full, then kept up to date by what events speak of.

import { get, ofRun } from "./api.js";
import { follow } from "./live.js";
import { isLive, report } from "./source.js";

const PAGE = 1000;
const APART = 120; // milliseconds that news waits for more news
const SLOWEST = 1500;
const AGAIN_AFTER = 2000; // when a reading failed although the stream is there
const LOOK_EVERY = 2000; // at answers that come in, and at workers that come and go: they are no events
const RARELY = 3; // looks, while nothing is in flight
const ORDER = { baseline: 0, candidate: 0, noise: 1, exploration: 1, confirmation: 2 };
export const OVER = new Set(["completed", "failed", "cancelled", "terminated"]);

/** Read a run in full, and follow it until `close()`; that of a report stays as it was. */
export async function openRun(id) {
  const run = new Run(id);
  await run.read();
  if (isLive) run.follow();
  return run;
}

class Run {
  detail = null;
  /** When the detail was read. */
  readAt = 0;
  /** Every trial, in the order of the proposals; confirmations last. */
  trials = [];
  rounds = [];
  rejections = [];
  releases = [];
  /** `kind` as `follow` tells it, or `kept`; and `at`: when the page last knew for sure how things stand. */
  connection = { kind: isLive ? "connecting" : "kept", at: this.now };

  #byCandidate = new Map();
  #listeners = new Set();
  #stream = null;
  #known = 0;
  #reading = null;
  #again = false;
  #releasesChanged = true;
  #closed = false;
  #looking = 0;
  #looks = 0;

  constructor(id) {
    this.id = id;
  }

  /** Hear of changes: `listener(changed)` with a set of `detail`, `trials`, `rounds`, `rejections`, `releases`, `connection`, `events`. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** When what is shown is looked at; a report is always looked at when it was written. */
  get now() {
    return isLive ? Date.now() : Date.parse(report.written_at);
  }

  get isOver() {
    return OVER.has(this.detail.status);
  }

  /** Whether only Temporal knows of it: the store has nothing, not even an event. */
  get hasNotBegun() {
    return this.detail.last_event_id === 0;
  }

  /** The search's best candidate, whether it holds or not. */
  get winner() {
    return this.detail.headline.in_search.best_candidate_id;
  }

  /** How many answers failed or are missing, over all trials. */
  get missingAnswers() {
    return this.trials.flatMap(({ errors }) => Object.values(errors ?? {})).reduce((sum, count) => sum + count, 0);
  }

  /** Whether a higher score is better. */
  get maximizes() {
    return this.detail.direction === "maximize";
  }

  /** A candidate's trial: the one that searched, unless another purpose is asked for. */
  trial(candidateId, purpose = null) {
    const found = this.#byCandidate.get(candidateId) ?? [];
    return found.find((trial) => (purpose ? trial.purpose === purpose : ORDER[trial.purpose] === 0)) ?? (purpose ? null : found[0]) ?? null;
  }

  /** Trials that stand for candidates: what charts and the lineage show. */
  get searching() {
    return this.trials.filter((trial) => ORDER[trial.purpose] === 0);
  }

  /** Candidates that were measured on some samples only, each by the newest of these trials. */
  get inPart() {
    const searching = new Set(this.searching.map((trial) => trial.candidate_id));
    const newest = new Map();
    for (const trial of this.trials) if (trial.part && !searching.has(trial.candidate_id)) newest.set(trial.candidate_id, trial);
    return [...newest.values()];
  }

  /** Take up whatever is new. Calls that come meanwhile are one more turn. */
  read() {
    if (this.#reading) {
      this.#again = true;
      return this.#reading;
    }
    this.#reading = this.#readOnce().finally(() => {
      this.#reading = null;
      if (this.#again && !this.#closed) {
        this.#again = false;
        this.#soon();
      }
    });
    return this.#reading;
  }

  async #readOnce() {
    const withReleases = this.#releasesChanged;
    this.#releasesChanged = false; // before they are asked for: what changes meanwhile is asked for again
    const [detail, outline, rounds, rejections, releases] = await Promise.all([
      this.#readDetail(),
      get(ofRun(this.id, "outline"), { query: { since: this.#known || null } }),
      this.#newOnes("rounds", this.rounds.length),
      this.#newOnes("rejections", this.rejections.length),
      withReleases ? get(ofRun(this.id, "releases")) : null,
    ]).catch((error) => {
      this.#releasesChanged ||= withReleases;
      throw error;
    });
    const changed = new Set(["detail"]);
    this.#take(detail);
    if (outline.trials.length) this.#merge(outline.trials, changed);
    this.#known = outline.last_event_id;
    if (rounds.length) changed.add("rounds"), (this.rounds = this.rounds.concat(rounds));
    if (rejections.length) changed.add("rejections"), (this.rejections = this.rejections.concat(rejections));
    if (releases) (this.releases = releases), changed.add("releases");
    this.connection = { ...this.connection, at: this.now };
    this.#tell(changed);
  }

  #readDetail() {
    return get(ofRun(this.id), { query: this.detail ? { spec: false } : {} });
  }

  /** The spec, which may be long, is read once. */
  #take(detail) {
    this.detail = this.detail ? { ...detail, spec: this.detail.spec } : detail;
    this.readAt = this.now;
  }

  async #look() {
    this.#looks += 1;
    const due = this.detail.in_flight.expected || this.detail.waits_for.length || this.#looks % RARELY === 0;
    if (document.hidden || this.isOver || !due || this.#reading) return;
    try {
      const detail = await this.#readDetail();
      if (this.#reading || this.#closed) return;
      this.#take(detail);
      this.#tell(new Set(["detail"]));
    } catch {
      // the stream notices, and says so
    }
  }

  async #newOnes(what, known) {
    const found = [];
    for (;;) {
      const page = await get(ofRun(this.id, what), { query: { offset: known + found.length, limit: PAGE } });
      found.push(...page.items);
      if (page.items.length < PAGE) return found;
    }
  }

  #merge(trials, changed) {
    changed.add("trials");
    const fresh = new Map();
    for (const trial of trials) fresh.set(trial.candidate_id, [...(fresh.get(trial.candidate_id) ?? []), trial]);
    for (const [candidate, found] of fresh) this.#byCandidate.set(candidate, found);
    const all = [...this.#byCandidate.values()].flat();
    const place = (trial) => ORDER[trial.purpose] ?? 1;
    all.sort((one, other) => place(one) - place(other) || one.round - other.round || one.index - other.index);
    let number = 0;
    for (const trial of all) trial.number = place(trial) === 0 ? number++ : null;
    this.trials = all;
  }

  follow() {
    this.#looking = setInterval(() => this.#look(), LOOK_EVERY);
    this.#stream = follow(`${ofRun(this.id)}/events`, {
      after: this.detail.last_event_id,
      onEvent: (event) => {
        if (event.id === null) return; // how far a round is, which is looked at anyway
        if (event.type === "release_changed" || event.type === "approval_due") this.#releasesChanged = true;
        this.#listeners.forEach((listener) => listener(new Set(["events"]), event));
        this.#soon();
      },
      onState: (kind) => {
        this.connection = { kind, at: kind === "live" ? Date.now() : this.connection.at };
        this.#tell(new Set(["connection"]));
        if (kind === "live") this.#soon();
      },
      poll: () => this.read(),
    });
  }

  #timer = 0;
  #soon() {
    if (this.#reading) {
      this.#again = true;
      return;
    }
    const apart = Math.min(APART + this.trials.length / 20, SLOWEST);
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      if (!this.#closed) this.read().catch(() => setTimeout(() => !this.#closed && this.#soon(), AGAIN_AFTER));
    }, apart);
  }

  #tell(changed) {
    if (this.#closed) return;
    for (const listener of [...this.#listeners]) listener(changed);
  }

  /** Try the stream again now. */
  reconnect() {
    this.#stream?.again();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looking);
    this.#stream?.close();
    this.#listeners.clear();
  }
}
