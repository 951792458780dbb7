"""Runs that are over, as retention sees them: what their answers take, what of them is gone, and what keeps the rest."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from store.connection import Connection, Database
from store.events import TERMINAL, TERMINATED
from store.read.rows.run_rows import LegalHold, Removal
from store.write.run_endings import DAYS_TO_COME_BACK
from workflows.rules.retention_policy import SizedRun

_RUNS: Final = """
    SELECT r.run_id, coalesce(r.finished_at, r.updated_at) AS ended_at, size.answers, size.text_bytes, size.answer_bytes,
           coalesce(gone.kinds, '{}') AS gone, held.label AS held, held.set_by, held.set_at,
           r.status = $2 AND coalesce(r.finished_at, r.updated_at) > now() - make_interval(days => $3) AS may_come_back,
           (SELECT l.release_id FROM releases l WHERE l.run_id = r.run_id AND l.decided_at IS NULL LIMIT 1) AS release_id,
           user_of.run_id AS user_of
    FROM runs r
    LEFT JOIN run_sizes size USING (run_id)
    LEFT JOIN LATERAL (
        SELECT array_agg(m.kind) AS kinds FROM removals m
        WHERE m.run_id = r.run_id AND m.began_at >= r.started_at AND m.ended_at IS NOT NULL
    ) gone ON true
    LEFT JOIN LATERAL (
        SELECT h.label, h.set_by, h.set_at FROM legal_holds h
        WHERE h.run_id = r.run_id AND h.lifted_at IS NULL ORDER BY h.number LIMIT 1
    ) held ON true
    LEFT JOIN LATERAL (
        SELECT o.run_id FROM runs o JOIN suites suite USING (run_id)
        WHERE o.status IN ('initialized', 'running', 'paused')
          AND r.run_id IN (suite.body ->> 'retry_of', suite.body ->> 'rescore_of') LIMIT 1
    ) user_of ON true
    WHERE r.status = ANY($1) ORDER BY ended_at, r.run_id
"""

SIZE: Final = """
    SELECT count(*) AS answers,
           coalesce(sum(
               coalesce(pg_column_size(a.output), 0) + coalesce(pg_column_size(a.error), 0)
               + coalesce(pg_column_size(a.trace), 0) + coalesce(pg_column_size(a.printed), 0) + coalesce(s.texts, 0)
           ), 0)::bigint AS text_bytes,
           coalesce(sum(
               2 * (pg_column_size(a.config_hash) + pg_column_size(a.target) + pg_column_size(a.run_id)
                    + pg_column_size(a.item_hash)) + pg_column_size(a.trial_id) + $2 + coalesce(s.rest, 0)
           ), 0)::bigint AS answer_bytes
    FROM answers a
    LEFT JOIN LATERAL (
        SELECT sum(pg_column_size(feedback) + coalesce(pg_column_size(error), 0)
                   + coalesce(pg_column_size(printed), 0)) AS texts,
               sum(2 * pg_column_size(scorer) + pg_column_size(scores) + coalesce(pg_column_size(details), 0) + $3) AS rest
        FROM scores WHERE answer_id = a.answer_id
    ) s ON true
    WHERE a.run_id = $1
"""
"""The keys count twice, as they are in the table and in its index."""

BESIDE_AN_ANSWER: Final = 130
"""Bytes of a row of answers beside its texts and keys: head, numbers, times, and the head of its index entry."""

BESIDE_A_SCORE: Final = 90


class SizedRuns:
    """Runs that are over."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> list[SizedRun]:
        """All of them, the oldest first. Those that nobody has measured so far are measured, and nothing is written."""
        async with self._database.connection() as connection:
            return await sized_runs(connection)

    async def held(self) -> dict[str, tuple[LegalHold, ...]]:
        """The holds in force, by run."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT run_id, label, reason, set_by, through, set_at FROM legal_holds WHERE lifted_at IS NULL ORDER BY number"
            )
        found: dict[str, tuple[LegalHold, ...]] = {}
        for row in rows:
            values = dict(row)
            run_id = values.pop("run_id")
            found[run_id] = (*found.get(run_id, ()), LegalHold(**values))
        return found

    async def removed(self, limit: int = 100) -> list[Removal]:
        """What policies have removed, the newest first."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT run_id, kind, policy, began_at AS at, ended_at IS NOT NULL AS complete, answers, bytes FROM removals"
                " ORDER BY number DESC LIMIT $1",
                limit,
            )
        return [Removal(**row) for row in rows]


async def sized_runs(connection: Connection) -> list[SizedRun]:
    """Runs that are over, the oldest first."""
    rows = await connection.fetch(_RUNS, sorted(TERMINAL), TERMINATED, DAYS_TO_COME_BACK)
    return [await _sized(connection, row) for row in rows]


async def _sized(connection: Connection, row: Any) -> SizedRun:
    size = row if row["answers"] is not None else await measured_size(connection, row["run_id"])
    gone = set(row["gone"])
    return SizedRun(
        row["run_id"],
        row["ended_at"],
        size["answers"],
        size["text_bytes"],
        size["answer_bytes"],
        has_texts=not gone & {"texts", "answers"},
        has_answers="answers" not in gone,
        kept=_kept(row),
    )


def _kept(row: Any) -> str:
    if row["held"] is not None:
        return held_words(row["held"], row["set_by"], row["set_at"])
    if row["may_come_back"]:
        return f"it was terminated less than {DAYS_TO_COME_BACK} days ago, and a reset may let it go on"
    if row["release_id"] is not None:
        return f"release {row['release_id']} waits for a decision"
    return "" if row["user_of"] is None else f"{row['user_of']} is open and uses its answers"


def held_words(label: str, set_by: str, set_at: datetime) -> str:
    """Say by whom and since when a run is held."""
    return f"held for {label!r} by {set_by} since {set_at.astimezone():%Y-%m-%d}"


async def measured_size(connection: Connection, run_id: str) -> Any:
    """What the answers of a run take: it reads them once, however long that takes."""
    return await connection.fetchrow(SIZE, run_id, BESIDE_AN_ANSWER, BESIDE_A_SCORE, timeout=float("inf"))
