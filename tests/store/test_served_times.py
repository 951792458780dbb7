"""A run's clock stands still while nobody serves it: told by the marks of workers, which tests move instead of waiting."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from store.connection import Database
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun
from workflows.model.run.clock import StoodStill
from workflows.model.run.contract import CommitRounds

BOTH = ("optimization", "optimization-evaluation")
SLACK = timedelta(seconds=10)


async def passes(database: Database, hours: float) -> None:
    """So much time passes for everything that is written."""
    async with database.connection() as connection:
        for change in (
            "UPDATE served_task_queues SET marked_at = marked_at - $1::interval",
            "UPDATE unserved_times SET began_at = began_at - $1::interval, ended_at = ended_at - $1::interval",
            "UPDATE schema_migrations SET applied_at = applied_at - $1::interval",
            "UPDATE runs SET started_at = started_at - $1::interval, finished_at = finished_at - $1::interval",
        ):
            await connection.execute(change, timedelta(hours=hours))


async def unserved(run: ExampleRun) -> timedelta:
    return (await run.store.served_times.run_clock(run.run_id)).unserved


def about(hours: float) -> object:
    return pytest.approx(timedelta(hours=hours), abs=SLACK)


async def test_time_that_somebody_serves_is_not_unserved(example: ExampleRun, database: Database) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    for _ in range(10):
        await passes(database, 5 / 3600)
        await run.store.served_times.mark(BOTH)
    assert await unserved(run) == timedelta(0)


async def test_a_night_without_workers_is_unserved_before_and_after_they_are_back(
    example: ExampleRun, database: Database
) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    await passes(database, 8)
    assert await unserved(run) == about(8)  # a suspended machine asks before its worker has left a mark again
    await run.store.served_times.mark(BOTH)
    assert await unserved(run) == about(8)
    await run.store.served_times.mark(BOTH)
    await passes(database, 2)
    await run.store.served_times.mark(BOTH)
    assert await unserved(run) == about(10)


async def test_both_task_queues_are_needed_and_a_moment_without_either_counts_once(
    example: ExampleRun, database: Database
) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    await passes(database, 3)
    await run.store.served_times.mark(BOTH[:1])  # somebody steers the run, and nobody evaluates
    await passes(database, 1)
    assert await unserved(run) == about(4)
    await run.store.served_times.mark(BOTH)
    assert await unserved(run) == about(4)


async def test_what_lies_before_the_run_and_other_queues_do_not_count(example: ExampleRun, database: Database) -> None:
    await example.store.served_times.mark((*BOTH, "another"))
    await passes(database, 5)
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    assert await unserved(run) == timedelta(0)


async def test_time_before_there_were_marks_is_not_unserved(example: ExampleRun, database: Database) -> None:
    """Of runs that were over, or under way, when Ratchet was upgraded."""
    run = await example.open()
    async with database.connection() as connection:
        await connection.execute("UPDATE runs SET started_at = started_at - interval '5 days'")
        await connection.execute("UPDATE schema_migrations SET applied_at = now()")  # the template may be older than a minute
    await run.store.served_times.mark(BOTH)
    assert await unserved(run) < SLACK


async def test_a_queue_that_nobody_has_served_yet_is_unserved(example: ExampleRun, database: Database) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open(execution={"evaluation_task_queue": "own"})
    for _ in range(2):
        await passes(database, 1)
        await run.store.served_times.mark(BOTH)
    assert await unserved(run) == about(2)
    await run.store.served_times.mark(("own",))
    assert await unserved(run) == about(2)


async def test_workers_that_wake_together_count_a_night_once(example: ExampleRun, database: Database, store: Store) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    await passes(database, 8)
    await asyncio.gather(*(store.served_times.mark(BOTH) for _ in range(5)))
    assert await unserved(run) == about(8)


async def test_whatever_is_written_for_a_run_says_what_the_clock_says(example: ExampleRun, database: Database) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open(budget={"wall_time": "1h"})
    await passes(database, 8)
    begun = await run.store.trials.begin(run.trial())
    assert (begun.unserved, begun.wall_time) == (about(8), timedelta(hours=1))
    limits = {"budget": {"wall_time": 7200.0}}
    committed = await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), limits=limits))
    assert (committed.unserved, committed.wall_time) == (about(8), timedelta(hours=2))


async def test_every_view_sees_the_same_clock_and_a_night_within_a_pause_counts_once(
    example: ExampleRun, database: Database, reader: StoreReader
) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()

    async def hours_still() -> float:
        progress, detail = await reader.runs.progress(run.run_id), await reader.runs.load(run.run_id)
        assert progress and detail
        assert progress.stood_still_seconds == pytest.approx(detail.stood_still_seconds, abs=10)
        return progress.stood_still_seconds / 3600

    async def told(stood_still: StoodStill) -> None:
        await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), stood_still=stood_still))

    await passes(database, 8)
    assert await hours_still() == pytest.approx(8, abs=0.01)
    await run.store.served_times.mark(BOTH)
    await told(StoodStill(paused_for=timedelta(hours=8), unserved=timedelta(hours=8)))
    assert await hours_still() == pytest.approx(8, abs=0.01)

    async with database.connection() as connection:
        now = await connection.fetchval("SELECT now()")
    await told(StoodStill(paused_for=timedelta(hours=8), unserved=timedelta(hours=8), resting_since=now - timedelta(hours=3)))
    assert await hours_still() == pytest.approx(11, abs=0.01)
    await passes(database, 2)  # paused, and nobody serves it either
    await run.store.served_times.mark(BOTH)
    await told(StoodStill(paused_for=timedelta(hours=13)))
    assert await hours_still() == pytest.approx(13, abs=0.01)


async def test_what_nobody_serves_after_the_end_is_no_part_of_the_run(
    example: ExampleRun, database: Database, reader: StoreReader
) -> None:
    """A short run ends between two marks: the worker goes, and the next one counts from the last of them."""
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    await passes(database, 10 / 3600)
    await run.store.runs.finish(run.finish("completed"))
    await passes(database, 1)
    await run.store.served_times.mark(BOTH)

    async def seconds_still() -> float:
        found = await reader.runs.load(run.run_id)
        assert found and found.finished_at
        assert (found.finished_at - found.started_at).total_seconds() > 5
        return found.stood_still_seconds

    assert await seconds_still() == 0.0
    late = StoodStill(paused_for=timedelta(hours=1), unserved=timedelta(hours=1))  # of a worker that was stopped until now
    await run.store.runs.commit_rounds(CommitRounds(run_id=run.run_id, records=(), stood_still=late))
    assert await seconds_still() == 0.0


async def test_another_execution_starts_a_clock_of_its_own(example: ExampleRun, database: Database) -> None:
    await example.store.served_times.mark(BOTH)
    run = await example.open()
    await passes(database, 8)
    await run.store.served_times.mark(BOTH)
    await run.store.runs.finish(run.finish("cancelled"))
    await run.open(execution_id="execution-2")
    assert await unserved(run) == timedelta(0)
