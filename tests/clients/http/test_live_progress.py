"""How far a round is, told between events: as often as it may, as seldom as it must."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clients.http import live_progress
from clients.http.live_progress import LiveRound
from store.read.rows.run_rows import LiveProgress
from workflows.model.run.rounds import Counts, Spend


class Readings:
    """A store whose counts a test sets; a reading is taken when the test lets it."""

    def __init__(self) -> None:
        self.answered, self.expected = 0, 10
        self.taken = asyncio.Semaphore(0)
        self.allowed = asyncio.Semaphore(0)

    async def read(self, _run_id: str) -> LiveProgress | None:
        await self.allowed.acquire()
        try:
            unknown: dict[str, Any] = dict.fromkeys(LiveProgress.model_fields)
            known = {"round": 2, "counts": Counts(running=1), "spend": Spend(), "in_flight": ()}
            return LiveProgress.model_construct(**unknown | known | {"answered": self.answered, "expected": self.expected})
        finally:
            self.taken.release()

    async def take(self) -> None:
        """One more reading, and what follows from it."""
        self.allowed.release()
        await self.taken.acquire()
        for _ in range(3):
            await asyncio.sleep(0)


@asynccontextmanager
async def following(round_: LiveRound) -> AsyncIterator[list[int]]:
    told: list[int] = []
    task = asyncio.create_task(round_.follow(lambda: told.append(round_.frame.number)))
    try:
        yield told
    finally:
        task.cancel()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which takes any time."""
    made: list[float] = []
    turn = asyncio.sleep

    async def pause(seconds: float) -> None:
        if seconds:
            made.append(seconds)
        await turn(0)

    monkeypatch.setattr("clients.http.live_progress.sleep", pause)
    return made


async def test_it_is_told_when_there_are_more_answers_after_a_pause_each(pauses: list[float]) -> None:
    store = Readings()
    round_ = LiveRound("run", store.read)
    round_.moved_to(7)
    async with following(round_) as told:
        await store.take()
        assert told == [], "nothing was answered yet"
        store.answered = 3
        await store.take()
        await store.take()
        assert told == [1], "the same is not told twice"
        facts = json.loads(round_.frame.data.split(b"data: ")[1])
        assert (round_.frame.after, facts["key"], facts["in_flight"]) == (7, "live/7/3", {"answered": 3, "expected": 10})
        store.answered = 4
        await store.take()
        assert told == [1, 2]
    assert len(pauses) >= 4
    assert min(pauses) >= live_progress.SECONDS_APART


async def test_a_count_that_an_event_overtook_is_not_told(pauses: list[float]) -> None:
    store = Readings()
    round_ = LiveRound("run", store.read)
    round_.moved_to(7)
    store.answered = 3
    async with following(round_) as told:
        while not pauses:
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        round_.moved_to(8)
        await store.take()
        assert told == []
        await store.take()
        assert (told, round_.frame.after) == ([1], 8)


async def test_nothing_is_read_while_nothing_is_in_flight(pauses: list[float]) -> None:
    store = Readings()
    store.expected = 0
    round_ = LiveRound("run", store.read)
    async with following(round_):
        await store.take()
        store.allowed.release()
        for _ in range(20):
            await asyncio.sleep(0)
        assert store.taken.locked(), "it waits for an event"
        round_.moved_to(9)
        await store.taken.acquire()


async def test_what_takes_long_to_count_is_counted_less_often(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("clients.http.live_progress.monotonic", lambda: now[0])
    store = Readings()

    async def slow(run_id: str) -> LiveProgress | None:
        now[0] += 0.5
        return await store.read(run_id)

    async with following(LiveRound("run", slow)):
        await store.take()
        await store.take()
    assert pauses[1] == 0.5 * live_progress.TIMES_THE_READING
