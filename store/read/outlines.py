"""Every trial of a run in one look, each in a few hundred bytes.

Charts, tables and graphs of ten thousand trials are drawn from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
from pydantic import Field

from ratchet._content_tokens import MARK
from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import shortened
from workflows.model.trial import Purpose

LONGEST_TEXT = 240
"""Characters of a rationale, an error or a decision; the whole is in the trial."""


class OutlinedTrial(Payload):
    """A trial without its configuration, its samples and its long texts."""

    candidate_id: str
    purpose: Purpose
    mask_id: str
    """The hash of its configuration."""
    round: int
    index: int
    status: str
    """`running`, `completed`, `failed`, `cancelled` or `timeout`."""
    objective_score: float | None = None
    low: float | None = None
    """95 % interval of the score over samples, where the score is the mean of its samples."""
    high: float | None = None
    parents: tuple[str, ...] = ()
    origin: str | None = None
    samples: int = 0
    part: str = ""
    """Tells trials of some samples only apart; empty for others."""
    split_samples: int = 0
    """How many samples there are, of which such a trial has some."""
    total: int | None = None
    passed: int | None = None
    coverage: float | None = None
    errors: dict[str, int] | None = None
    """How many of its samples failed or are missing, by the class of the error."""
    cost: float | None = None
    """What its answers cost, reused ones included."""
    tokens: int | None = None
    latency_ms: float | None = None
    paid_cost: float = 0.0
    paid_tokens: int = 0
    paid_samples: int = 0
    rationale: str | None = None
    verdict: str | None = None
    """Of its round: `better`, `not_worse`, `worse` or `inconclusive`."""
    kept: bool | None = None
    """It became the best of the run."""
    why: str | None = None
    """The decision in one sentence."""
    gains: dict[str, float] | None = None
    """Over the baseline, by objective, where there are several; positive is better."""
    stopped_early: str | None = None
    error: str | None = None
    started_at: datetime
    finished_at: datetime | None = None


class Outline(Payload):
    """All trials, or those that changed, as they were when `last_event_id` was the newest event."""

    last_event_id: int
    trials: tuple[OutlinedTrial, ...] = Field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class ReadOutline:
    """An outline as it was read."""

    last_event_id: int
    rows: Sequence[asyncpg.Record]

    def told(self) -> Outline:
        """The outline; ten thousand trials take long enough for a thread of their own."""
        return Outline(last_event_id=self.last_event_id, trials=tuple(_trial(row) for row in self.rows))


def _trial(row: Any) -> OutlinedTrial:
    read = {name: from_json(row[name]) for name in ("gains", "errors")}
    if row["judged"] is not None:
        read["why"] = from_json(row["judged"])["explanation"][:LONGEST_TEXT]
    read |= {name: row[name] and row[name][:LONGEST_TEXT] for name in ("rationale", "error")}
    return OutlinedTrial(**{**dict(row), **read})


class OutlineReader:
    """The outlines of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, *, since: int | None = None) -> Outline | None:
        """Every trial in a few hundred bytes, or those that events after one speak of; None when there is no such run."""
        async with self._database.snapshot() as connection:
            found = await _outline(connection, run_id, since)
        return None if found is None else await asyncio.to_thread(found.told)


async def _outline(connection: Connection, run_id: str, since: int | None) -> ReadOutline | None:
    """The trials of a run in the order of their proposals; with `since`, those that events after it speak of."""
    newest = await connection.fetchval(
        "SELECT coalesce((SELECT max(id) FROM events e WHERE e.run_id = r.run_id), 0) FROM runs r WHERE run_id = $1", run_id
    )
    if newest is None:
        return None
    found = await connection.fetch(
        f"""
        SELECT t.candidate_id, t.purpose, t.config_hash AS mask_id, t.round, t.index, t.status,
               t.score AS objective_score, t.score_low AS low,
               t.score_high AS high, c.parent_candidate_ids AS parents, c.extra ->> 'origin' AS origin, t.samples, t.part,
               suite.samples AS split_samples, t.total,
               t.passed, t.coverage, t.errors, t.total_cost AS cost, t.total_tokens AS tokens, t.avg_latency_ms AS latency_ms,
               t.paid_cost, t.paid_tokens, t.paid_samples, {shortened("c.rationale", "$3")} AS rationale,
               t.judged ->> 'verdict' AS verdict, (t.judged ->> 'kept')::bool AS kept,
               left(t.judged ->> 'explanation', $3) AS why,
               CASE WHEN t.judged ? '{MARK}' THEN t.judged END AS judged, compared.gains,
               left(t.stopped_early, $3) AS stopped_early, {shortened("t.error", "$3")} AS error, t.started_at, t.finished_at
        FROM trials t
        JOIN candidates c USING (run_id, candidate_id)
        JOIN runs r USING (run_id)
        JOIN suites suite ON suite.run_id = t.run_id AND suite.split = t.split
        LEFT JOIN LATERAL (
            SELECT jsonb_object_agg(other.key, other.value -> 'effect')
                   || jsonb_build_object(r.objective, max((found ->> 'effect')::float8)) AS gains
            FROM jsonb_array_elements(t.evidence) found, jsonb_each(found -> 'objectives') other
            WHERE found ->> 'reference' = r.baseline_candidate_id
        ) compared ON true
        WHERE t.run_id = $1 AND ($2::bigint IS NULL OR t.candidate_id IN (
            SELECT payload ->> 'candidate_id' FROM events
            WHERE run_id = $1 AND id > $2 AND type = 'trial_added_or_updated'
        ) OR t.round IN (
            SELECT (payload ->> 'round')::int FROM events
            WHERE run_id = $1 AND id > $2 AND type = 'progress_changed'
        ))
        ORDER BY t.purpose NOT IN ('baseline', 'candidate'), t.purpose = 'confirmation', t.round, t.index, t.candidate_id
        """,  # noqa: S608 (names of columns)
        run_id,
        since,
        LONGEST_TEXT,
    )
    return ReadOutline(newest, found)
