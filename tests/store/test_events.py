"""Events: in order, once, and announced only when they can be read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from store.events import EVENTS_CHANNEL, Event, announce, lock_run
from store.read.reader import StoreReader
from tests.support.store_examples import ExampleRun, PostgresServer


@dataclass
class Dawdling:
    """A writer that has announced its event, and does not commit before it may."""

    announced: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


async def write(run: ExampleRun, key: str, dawdling: Dawdling | None = None) -> None:
    async with run.database.transaction() as connection:
        locked = await lock_run(connection, run.run_id)
        await announce(connection, locked, [Event(key, "progress_changed", {"key": key})])
        if dawdling:
            dawdling.announced.set()
            await dawdling.go_on.wait()


async def test_events_of_a_run_become_visible_in_the_order_of_their_ids(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    seen: list[int] = []
    writers = [asyncio.create_task(write(run, f"key {n}")) for n in range(150)]
    after = 0
    while not all(writer.done() for writer in writers) or await reader.events.after(run.run_id, after=after, limit=1):
        for event in await reader.events.after(run.run_id, after=after, limit=7):
            seen.append(event.id)
            after = event.id
    await asyncio.gather(*writers)

    everything = [event.id for event in await reader.events.after(run.run_id)]
    assert seen == everything == sorted(everything)
    assert len(everything) == 151


async def test_a_writer_that_dawdles_before_its_commit_holds_later_ids_back(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    dawdling = Dawdling()
    slow = asyncio.create_task(write(run, "slow", dawdling))
    await dawdling.announced.wait()
    fast = asyncio.create_task(write(run, "fast"))
    done, _ = await asyncio.wait({slow, fast}, timeout=0.05)
    assert not done
    dawdling.go_on.set()
    await asyncio.gather(slow, fast)
    keys = [event.payload.get("key") for event in await reader.events.after(run.run_id)]
    assert keys[1:] == ["slow", "fast"]


async def test_one_runs_writers_do_not_wait_for_anothers(example: ExampleRun) -> None:
    run = await example.open()
    other = await ExampleRun(example.store, example.database, run_id="other").open()
    dawdling = Dawdling()
    slow = asyncio.create_task(write(run, "slow", dawdling))
    await dawdling.announced.wait()
    await asyncio.wait_for(write(other, "fast"), timeout=5)
    dawdling.go_on.set()
    await slow


async def test_announcing_the_same_happening_again_changes_nothing(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    await asyncio.gather(*(write(run, "same") for _ in range(10)))
    assert [event.payload for event in await reader.events.after(run.run_id)][1:] == [{"key": "same"}]


async def test_reading_goes_on_after_the_last_event_seen(example: ExampleRun, reader: StoreReader) -> None:
    run = await example.open()
    for n in range(5):
        await write(run, str(n))
    events = await reader.events.after(run.run_id)
    assert await reader.events.after(run.run_id, after=events[2].id) == events[3:]
    assert await reader.events.after(run.run_id, after=events[0].id, limit=2) == events[1:3]
    assert await reader.events.last_id(run.run_id) == events[-1].id
    assert (await reader.events.after("unknown"), await reader.events.last_id("unknown")) == ([], 0)


async def test_listeners_are_told_when_a_transaction_with_events_has_committed(
    example: ExampleRun, reader: StoreReader
) -> None:
    run = await example.open()
    async with run.database.notifications(EVENTS_CHANNEL) as told:
        before = await reader.events.last_id(run.run_id)
        await write(run, "new")
        assert await asyncio.wait_for(told.get(), timeout=5) == run.run_id
        assert [event.payload for event in await reader.events.after(run.run_id, after=before)] == [{"key": "new"}]
        await write(run, "new")
        await write(run, "newer")
        assert await asyncio.wait_for(told.get(), timeout=5) == run.run_id
        assert told.empty()


async def test_a_listener_learns_that_it_no_longer_listens(example: ExampleRun, postgres: PostgresServer) -> None:
    run = await example.open()
    async with run.database.notifications(EVENTS_CHANNEL) as told:
        await postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert await asyncio.wait_for(told.get(), timeout=5) is None
