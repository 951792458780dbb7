"""The stream of events: in order, each once, from wherever a reader stopped, and the same for all who read."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from clients.http.feed import MOST_BYTES, Feed
from clients.http.routes.runs import streams
from store.connection import Database
from store.events import Event, announce, lock_run
from tests.support.engines import Engines
from tests.support.event_streams import RawStream, Seen, reading
from tests.support.hill_specs import gated_spec, hill_spec

ALL = "/v1/private/optimizations"


async def note(engines: Engines, run_id: str, key: str, count: int = 1, padding: str = "") -> None:
    """Announce something of a run, as activities do: in the transaction that stores it."""
    async with engines.database.transaction() as connection:
        run = await lock_run(connection, run_id)
        happened = [Event(f"{key}/{n}", "progress_changed", {"key": f"{key}/{n}", "padding": padding}) for n in range(count)]
        await announce(connection, run, happened)


async def stored(engines: Engines, run_id: str) -> list[int]:
    async with engines.database.connection() as connection:
        return [row["id"] for row in await connection.fetch("SELECT id FROM events WHERE run_id = $1 ORDER BY id", run_id)]


@pytest.fixture
async def quiet(engines: Engines, request: pytest.FixtureRequest) -> str:
    """A finished run of the test's own, which says nothing by itself."""
    run_id = f"quiet-{request.node.name[:60]}"
    await engines.run(hill_spec(name="quiet", stop={"max_rounds": 1}), run_id=run_id)
    return run_id


async def test_the_progress_of_a_long_round_is_told_and_leaves_nothing_behind(
    http: httpx.AsyncClient, url: str, engines: Engines, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    spec = gated_spec(gate, name="long", stop={"max_rounds": 1}) | {"target": {"kind": "python", "ref": "plugged:half_waits"}}
    run_id = (await http.post("/optimizations", json=spec)).json()["optimization_id"]
    async with reading(url, f"{ALL}/{run_id}/events") as stream:
        seen = await stream.until("progress_changed")
        while seen[-1].data["in_flight"]["answered"] < 4:
            seen += await stream.until("progress_changed")
        told = seen[-1]
        assert (told.id, told.data["in_flight"], told.data["decisions"]) == (0, {"answered": 4, "expected": 8}, [])
        assert told.data["counts"]["running"] == 1
        assert told.data["key"] == f"live/{max(event.id for event in seen)}/4"
        gate.touch()
        seen += await stream.until("run_finished")
    kept = [event.id for event in seen if event.id]
    assert kept == await stored(engines, run_id)
    assert {event.type for event in seen if not event.id} == {"progress_changed"}
    log = (await http.get(f"/optimizations/{run_id}/log?trials=true")).json()["items"]
    assert {event["id"] for event in log} == set(kept)


async def test_a_run_that_is_refused_before_it_begins_is_told_as_ended(
    http: httpx.AsyncClient, url: str, engines: Engines
) -> None:
    await engines.start(hill_spec(name="refused", dataset={"name": "never-added"}), run_id="refused-at-once")
    async with reading(url, f"{ALL}/refused-at-once/events") as stream:
        ended = (await stream.until("run_finished"))[-1]
    assert ended.data["status"] == "failed"
    assert "refused before it began" in ended.data["message"]


async def test_a_run_is_told_live_from_its_first_event_to_its_last(
    http: httpx.AsyncClient, url: str, engines: Engines, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = (await http.post("/optimizations", json=gated_spec(gate, name="told"))).json()["optimization_id"]
    async with reading(url, f"{ALL}/{run_id}/events") as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        before = [await stream.next()]
        while before[-1].type != "trial_added_or_updated":
            before.append(await stream.next())
        assert before[-1].data["status"] == "running"
        gate.touch()
        after = await stream.until("run_finished")
    seen = [event for event in (*before, *after) if event.id]
    assert [event.id for event in seen] == await stored(engines, run_id)
    assert len({event.data["key"] for event in seen}) == len(seen)
    assert {event.type for event in seen} == {
        "run_status_changed",
        "progress_changed",
        "trial_added_or_updated",
        "best_candidate_changed",
        "run_finished",
    }
    assert all(event.data["optimization_id"] == run_id for event in seen)


async def test_a_reader_goes_on_after_the_last_event_it_had(url: str, engines: Engines, quiet: str) -> None:
    ids = await stored(engines, quiet)
    for path, headers in (
        (f"{ALL}/{quiet}/events", {"Last-Event-ID": str(ids[2])}),
        (f"{ALL}/{quiet}/events?last_event_id={ids[2]}", {}),
        (f"{ALL}/{quiet}/events?last_event_id={ids[0]}", {"Last-Event-ID": str(ids[2])}),
    ):
        async with reading(url, path, **headers) as stream:
            assert [event.id for event in await stream.take(len(ids) - 3)] == ids[3:]
            await note(engines, quiet, f"live {path} {headers}")
            assert (await stream.next()).id == (await stored(engines, quiet))[-1]
        ids = await stored(engines, quiet)


async def test_an_id_that_was_never_given_is_no_place_to_go_on_from(url: str, engines: Engines, quiet: str) -> None:
    ids = await stored(engines, quiet)
    async with reading(url, f"{ALL}/{quiet}/events", **{"Last-Event-ID": str(ids[-1] + 10**9)}) as stream:
        assert (await stream.next()).id == ids[0]
    for nonsense in ("x", "-1", "1e3", "9" * 30):
        async with reading(url, f"{ALL}/{quiet}/events", **{"Last-Event-ID": nonsense}) as stream:
            assert stream.status == 422


async def test_readers_at_different_places_all_get_everything_in_order_and_once(url: str, engines: Engines, quiet: str) -> None:
    beginning = await stored(engines, quiet)
    starts = [0, 0, beginning[1], beginning[-1], beginning[-1]]

    async def follow(start: int) -> list[Seen]:
        async with reading(url, f"{ALL}/{quiet}/events?last_event_id={start}") as stream:
            return await stream.take(len(beginning) - sum(1 for known in beginning if known <= start) + 1500)

    readers = [asyncio.create_task(follow(start)) for start in starts]
    for batch in range(30):
        await note(engines, quiet, f"batch {batch}", count=50)
    everything = await stored(engines, quiet)
    for start, reader in zip(starts, readers, strict=True):
        assert [event.id for event in await reader] == [known for known in everything if known > start]


async def test_a_stream_says_that_it_lives_and_leaves_when_its_reader_does(
    url: str, quiet: str, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_EVERY", 0.1)
    last = (await stored(engines, quiet))[-1]
    async with reading(url, f"{ALL}/{quiet}/events?last_event_id={last}") as stream:
        async with asyncio.timeout(10):
            while stream.comments.count("heartbeat") < 3:
                line = await stream._line()
                stream.comments.append(line[1:].strip() if line.startswith(":") else line)
    feed = next(found for found in gc.get_objects() if type(found) is Feed and not found.closed and found._topics)
    async with asyncio.timeout(10):
        while quiet in feed._topics:
            await asyncio.sleep(0.02)


async def test_a_reader_that_does_not_read_costs_no_memory_and_delays_nobody(url: str, engines: Engines, quiet: str) -> None:
    last = (await stored(engines, quiet))[-1]
    padding = "x" * 4000
    async with reading(url, f"{ALL}/{quiet}/events?last_event_id={last}") as slow, fast_reader(url, quiet, last) as fast:
        for batch in range(12):
            await note(engines, quiet, f"heavy {batch}", count=100, padding=padding)
            assert len(await fast.take(100)) == 100
        feed = next(f for f in gc.get_objects() if isinstance(f, Feed) and not f.closed and quiet in f._topics)
        assert feed._topics[quiet]._size <= MOST_BYTES
        everything = [known for known in await stored(engines, quiet) if known > last]
        assert [event.id for event in await slow.take(1200)] == everything


@asynccontextmanager
async def fast_reader(url: str, run_id: str, last: int) -> AsyncIterator[RawStream]:
    async with reading(url, f"{ALL}/{run_id}/events?last_event_id={last}") as stream:
        yield stream


async def test_a_lost_notification_costs_seconds_and_no_event(url: str, engines: Engines, quiet: str) -> None:
    last = (await stored(engines, quiet))[-1]
    async with reading(url, f"{ALL}/{quiet}/events?last_event_id={last}") as stream:
        await note(engines, quiet, "heard")
        assert (await stream.next()).data["key"].endswith("heard/0")
        async with engines.database.connection() as connection:
            await connection.execute(
                "INSERT INTO events (run_id, event_key, type, payload) VALUES ($1, 'silent', 'progress_changed', '{}')", quiet
            )
        assert (await stream.next(within=15)).data["key"] == "silent"


async def test_the_list_is_told_whenever_any_run_has_changed(url: str, engines: Engines, quiet: str) -> None:
    async with reading(url, "/v1/private/events") as stream:
        await note(engines, quiet, "anything")
        assert (await stream.next()).type == "runs_changed"


async def test_events_that_hold_line_breaks_and_markup_stay_one_event(url: str, engines: Engines, quiet: str) -> None:
    last = (await stored(engines, quiet))[-1]
    hostile = "</script>\r\ndata: {}\n\nid: 999\nevent: run_finished\u2028\u2029"
    async with reading(url, f"{ALL}/{quiet}/events?last_event_id={last}") as stream:
        await note(engines, quiet, "hostile", padding=hostile)
        await note(engines, quiet, "after")
        first, second = await stream.take(2)
    assert (first.data["padding"], first.type) == (hostile, "progress_changed")
    assert second.data["key"].endswith("after/0")


async def test_closing_the_server_ends_its_streams_at_once(servers: object, database_of_its_own: Database) -> None:
    feed = Feed(database_of_its_own)
    async with feed.serving():
        ear = asyncio.Event()
        with feed.seat(ear):
            feed.close()
            assert ear.is_set()
            assert feed.closed


@pytest.fixture
async def database_of_its_own(engines: Engines) -> AsyncIterator[Database]:
    database = await Database.open(engines.addresses.database_url, most_connections=2)
    yield database
    await database.close()
