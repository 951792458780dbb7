"""When somebody served: the marks that workers leave for their task queues, and what that says of a run's clock.

Only durations leave this module. PostgreSQL measures them with its own clock, so it does not matter what the clocks of workers
and of workflows say, nor that a workflow's jumps where time is skipped. A machine that sleeps leaves no marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from store.connection import Connection, Database
from store.encoding import storable_json
from store.schema import StoreError
from workflows.model.run.clock import RunClock, StoodStill

LONGEST_BETWEEN_MARKS_SECONDS: Final = 15
"""Marks that are further apart have time between them that nobody served."""

_QUEUES = "ARRAY[r.task_queue, coalesce(r.spec #>> '{execution,evaluation_task_queue}', r.task_queue || '-evaluation')]"


def _unserved_until(moment: str) -> str:
    """For how long nobody served one of the run's task queues, in SQL over the row `r`."""
    return f"unserved_time({_QUEUES}, r.started_at, {moment}, interval '{LONGEST_BETWEEN_MARKS_SECONDS} seconds')"


_RESTING_SINCE = "(r.clock ->> 'resting_since')::timestamptz"
_LAST_MOMENT = f"coalesce({_RESTING_SINCE}, r.finished_at, clock_timestamp())"

_STOOD_STILL: Final = f"""
    extract(epoch FROM
        coalesce((r.clock ->> 'paused_for')::interval, interval '0')
        + greatest({_unserved_until(_LAST_MOMENT)} - coalesce((r.clock ->> 'unserved')::interval, interval '0'), interval '0')
        + CASE WHEN {_RESTING_SINCE} IS NULL THEN interval '0'
               ELSE greatest(coalesce(r.finished_at, clock_timestamp()) - {_RESTING_SINCE}, interval '0') END
    )::float8
"""

STOOD_STILL: Final = f"coalesce((r.clock ->> 'at_end')::float8, {_STOOD_STILL})"
"""For how many seconds the run stood still so far: paused, or served by nobody. Told anew until it ends: whoever wrote its end
served it until then, although his last mark may be some seconds older, from which the next worker counts."""


class ServedTimes:
    """When task queues were served, and what that says of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def mark(self, task_queues: Sequence[str]) -> None:
        """Say that task queues are served now. What nobody served since the mark before is kept."""
        async with self._database.transaction() as connection:
            for task_queue in sorted(task_queues):
                marked_at = await connection.fetchval(
                    "SELECT marked_at FROM served_task_queues WHERE task_queue = $1 FOR UPDATE", task_queue
                )
                await connection.execute(
                    """
                    WITH gap AS (
                        INSERT INTO unserved_times (task_queue, began_at, ended_at)
                        SELECT $1, coalesce($2::timestamptz, '-infinity'), clock_timestamp()
                        WHERE coalesce($2::timestamptz, '-infinity') < clock_timestamp() - make_interval(secs => $3)
                        ON CONFLICT DO NOTHING
                    )
                    INSERT INTO served_task_queues (task_queue, marked_at) VALUES ($1, clock_timestamp())
                    ON CONFLICT (task_queue) DO UPDATE SET marked_at = excluded.marked_at
                    """,
                    task_queue,
                    marked_at,
                    float(LONGEST_BETWEEN_MARKS_SECONDS),
                )

    async def run_clock(self, run_id: str) -> RunClock:
        """For how long no worker has served the run so far, and its time budget."""
        async with self._database.connection() as connection:
            return await run_clock(connection, run_id)


async def run_clock(connection: Connection, run_id: str) -> RunClock:
    """For how long no worker has served the run so far, and its time budget."""
    row = await connection.fetchrow(
        f"SELECT {_unserved_until('clock_timestamp()')} AS unserved,"  # noqa: S608 (constants of this module)
        " coalesce(r.limits #>> '{budget,wall_time}', r.spec #>> '{budget,wall_time}') AS wall_time"
        " FROM runs r WHERE r.run_id = $1",
        run_id,
    )
    if row is None:
        raise StoreError(f"run {run_id!r} is not in the store")
    return RunClock(unserved=row["unserved"], wall_time=row["wall_time"])


async def write_stood_still(connection: Connection, run_id: str, stood_still: StoodStill) -> None:
    """Keep how long a run has stood still, for those who look at it."""
    unserved = stood_still.unserved
    if unserved is None:
        unserved = (await run_clock(connection, run_id)).unserved
    told = stood_still.model_copy(update={"unserved": unserved})
    await connection.execute(
        "UPDATE runs SET clock = $2 WHERE run_id = $1 AND NOT clock ? 'at_end'",
        run_id,
        storable_json(told.model_dump(mode="json")),
    )


async def end_clock(connection: Connection, run_id: str) -> None:
    """Keep how long a run stood still until its end; marks that workers leave later change nothing about that."""
    await connection.execute(
        f"UPDATE runs r SET clock = r.clock || jsonb_build_object('at_end', {_STOOD_STILL})"  # noqa: S608 (constants of this module)
        " WHERE r.run_id = $1 AND NOT r.clock ? 'at_end'",
        run_id,
    )
