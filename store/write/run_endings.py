"""Runs whose workflow is over without having said so: which they may be, and how their end is written down for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from store.budget_leases import SECONDS_UNTIL_STALE
from store.connection import Connection, Database
from store.encoding import storable_text
from store.encrypted_contents import contents_of
from store.events import TERMINAL, TERMINATED, Event, LockedRun, RunUnknown, announce, lock_run, status_event
from store.write.cut_off_trials import cut_off_trials
from store.write.limits.budgets import settle_left_open

CUT_OFF = "the run was ended from outside before this trial did"

DAYS_TO_COME_BACK = 30
"""For so long a terminated run is looked at, because a reset may let it go on."""

_ONE_LOOKS = 0x45_4E44
"""With a namespace's own number: whoever holds it looks after the runs of that namespace."""


@dataclass(frozen=True, slots=True)
class UnendedRun:
    """A run that the store does not know the end of, or knows to be terminated although it may go on again."""

    run_id: str
    execution_id: str
    """The execution that prepared it: the first of its chain, unless it was reset to before that."""
    namespace_id: str
    """Of its Temporal; empty when that was not noted."""
    status: str
    untouched: float
    """Seconds since anything of it was written."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an execution ended, as Temporal tells it."""

    status: Literal["terminated", "failed", "cancelled"]
    message: str
    at: datetime | None = None
    """By Temporal's clock; None when it does not say."""


class RunEndings:
    """The ends of runs that could not write them themselves."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def looked_after(self, namespace_id: str) -> AsyncIterator[bool]:
        """Whether nobody else looks after this namespace's runs; until the block is left, nobody else may."""
        async with self._database.connection() as connection:
            key = (_ONE_LOOKS, namespace_id)
            alone = bool(await connection.fetchval("SELECT pg_try_advisory_lock($1, hashtext($2))", *key))
            try:
                yield alone
            finally:
                if alone:
                    await connection.execute("SELECT pg_advisory_unlock($1, hashtext($2))", *key)

    async def settle_what_is_over(self) -> None:
        """Give back what nobody renews any more of the budgets of runs that are over, and end what began after a termination.

        A worker hears of a terminated run some seconds later: until then it keeps its books, and its trials say how they ended.
        """
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT run_id FROM budget_leases JOIN runs USING (run_id)
                WHERE status = ANY($1) AND renewed_at < now() - make_interval(secs => $2)
                UNION
                SELECT run_id FROM trials t JOIN runs r USING (run_id) WHERE r.status = 'terminated' AND t.status = 'running'
                ORDER BY run_id
                """,
                sorted(TERMINAL),
                SECONDS_UNTIL_STALE,
            )
            for row in rows:
                async with connection.transaction():
                    run = await lock_run(connection, row["run_id"])
                    if run.status in TERMINAL:
                        await settle_left_open(connection, run.run_id)
                    if run.status == TERMINATED:
                        await announce(connection, run, await cut_off_trials(connection, run.run_id, CUT_OFF))

    async def unended(self, namespace_id: str) -> list[UnendedRun]:
        """Runs without an end, and those that were terminated of late, unless they are known to be another Temporal's."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT run_id, execution_id, namespace_id, status, extract(epoch FROM now() - updated_at)::float8 AS untouched
                FROM runs
                WHERE namespace_id IN ('', $1) AND (status IN ('initialized', 'running', 'paused')
                      OR (status = 'terminated' AND finished_at > now() - make_interval(days => $2)))
                ORDER BY run_id
                """,
                namespace_id,
                DAYS_TO_COME_BACK,
            )
            return [UnendedRun(**row) for row in rows]

    async def write(self, unended: UnendedRun, ended: Ended) -> bool:
        """Write down a run's end in its place. False when the run has done so itself by now, or was started anew."""
        async with self._database.transaction() as connection:
            run = await _locked_as_it_was(connection, unended)
            if run is None:
                return False
            events = await cut_off_trials(connection, run.run_id, CUT_OFF)
            message = storable_text(ended.message)
            stands = await connection.fetchrow(
                """
                UPDATE runs SET
                    status = $2, status_changes = status_changes + 1, stop_reason = NULL, message = $3, updated_at = now(),
                    finished_at = greatest(started_at, least(coalesce($4, now()), now()))
                WHERE run_id = $1 RETURNING best_candidate_id, best_score, baseline_score
                """,
                run.run_id,
                ended.status,
                contents_of(connection).text(message),
                ended.at,
            )
            ending = {"status": ended.status, "stop_reason": None, "message": message, **dict(stands or {})}
            events.append(status_event(run, ended.status))
            events.append(Event(f"finished/{ended.status}/{run.status_changes + 1}", "run_finished", ending))
            await announce(connection, run, events)
            return True

    async def take_back(self, terminated: UnendedRun) -> bool:
        """Its execution was reset: the run goes on. Its trials that were cut off may still say how they ended."""
        async with self._database.transaction() as connection:
            run = await _locked_as_it_was(connection, terminated)
            if run is None:
                return False
            await connection.execute(
                "UPDATE runs SET status = 'running', status_changes = status_changes + 1, message = '', finished_at = NULL,"
                " updated_at = now() WHERE run_id = $1",
                run.run_id,
            )
            await announce(connection, run, [status_event(run, "running")])
            return True


async def _locked_as_it_was(connection: Connection, seen: UnendedRun) -> LockedRun | None:
    """The run's row under lock; None when it is not what was looked at any more."""
    try:
        run = await lock_run(connection, seen.run_id)
    except RunUnknown:
        return None
    execution = await connection.fetchval("SELECT execution_id FROM runs WHERE run_id = $1", seen.run_id)
    ended = run.status in TERMINAL
    return run if execution == seen.execution_id and ended == (seen.status == TERMINATED) else None
