"""How much may be in flight: a run's limit is one for the whole worker, shared by priority, and follows adjustments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from activities.concurrency.in_flight_limits import NOBODY, Caller, CallPlaces, Limit, RunLimits
from workflows.model.spec.limits import AdjustedLimits


class TestLimit:
    async def test_no_more_than_its_capacity_are_in_flight(self) -> None:
        limit, most = Limit(3), 0

        async def call() -> None:
            nonlocal most
            await limit.acquire(NOBODY)
            most = max(most, limit.in_flight)
            await asyncio.sleep(0)
            limit.release()

        await asyncio.gather(*[call() for _ in range(50)])
        assert (most, limit.in_flight) == (3, 0)

    async def test_growing_admits_at_once_and_shrinking_as_calls_end(self) -> None:
        limit = Limit(1)
        waiting = [asyncio.create_task(limit.acquire(NOBODY)) for _ in range(6)]
        await _until(lambda: limit.in_flight == 1)
        limit.resize(4)
        await _until(lambda: limit.in_flight == 4)
        limit.resize(2)
        limit.release()
        limit.release()
        await asyncio.sleep(0)
        assert limit.in_flight == 2
        limit.release()
        await _until(lambda: sum(task.done() for task in waiting) == 5)
        for task in waiting:
            task.cancel()

    async def test_a_waiting_call_that_is_cancelled_takes_no_place(self) -> None:
        limit = Limit(1)
        await limit.acquire(NOBODY)
        first, second = asyncio.create_task(limit.acquire(NOBODY)), asyncio.create_task(limit.acquire(NOBODY))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        limit.release()
        await second
        assert limit.in_flight == 1

    async def test_a_call_cancelled_as_it_is_admitted_passes_its_place_on(self) -> None:
        limit = Limit(1)
        await limit.acquire(NOBODY)
        first, second = asyncio.create_task(limit.acquire(NOBODY)), asyncio.create_task(limit.acquire(NOBODY))
        await asyncio.sleep(0)
        limit.release()
        first.cancel()
        await second
        assert limit.in_flight == 1

    async def test_runs_take_turns_by_their_priority(self) -> None:
        limit, order = Limit(1), list[str]()

        async def call(run_id: str, priority: int) -> None:
            await limit.acquire(Caller(run_id, priority))
            order.append(run_id)
            await asyncio.sleep(0)
            limit.release()

        await asyncio.gather(*[call("low", 2) for _ in range(30)], *[call("high", 4) for _ in range(30)])
        assert 4 <= order[1:31].count("low") <= 8, order


class TestRunLimits:
    async def test_a_run_has_one_for_all_its_shards_and_it_is_forgotten_with_the_last(self) -> None:
        limits = RunLimits()
        async with limits.of(Caller("run"), 3) as one:
            async with limits.of(Caller("run"), 99) as other, limits.of(Caller("another"), 5) as third:
                assert await _places(one, third) == [3, 5]
                assert await _places(other) == [3]
            assert await _places(one) == [3]
        async with limits.of(Caller("run"), 7) as later:
            assert await _places(later) == [7]

    async def test_a_trial_has_its_own_within_the_runs_and_the_worker_one_around_them(self) -> None:
        limits = RunLimits(worker=9)
        async with (
            limits.of(Caller("run"), 6, trial_id="a", trial_capacity=4) as one,
            limits.of(Caller("run"), 6, trial_id="b", trial_capacity=4) as other,
            limits.of(Caller("another"), 99) as third,
        ):
            assert await _places(one, other, third) == [4, 2, 3]

    async def test_a_call_that_is_cancelled_while_it_waits_gives_back_what_it_has(self) -> None:
        limits = RunLimits(worker=1)
        async with limits.of(Caller("run"), 1) as one, limits.of(Caller("another"), 1) as other:
            await one.acquire()
            waiting = asyncio.create_task(other.acquire())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            one.release()
            assert await _places(other) == [1]

    async def test_a_look_at_the_store_that_fails_changes_nothing(self) -> None:
        changed = AdjustedLimits(concurrent_samples=9, priority=5)
        answers: list[AdjustedLimits | Exception] = [ConnectionError("away"), AdjustedLimits(), changed]
        looked = 0

        async def adjusted(run_id: str) -> AdjustedLimits:
            nonlocal looked
            looked += 1
            answer = answers[min(looked, len(answers)) - 1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        caller = Caller("run", 2)
        async with RunLimits(adjusted, interval=0.01).of(caller, 3) as room:
            await _until(lambda: looked == 2)
            assert (await _places(room), caller.priority) == ([3], 2)
            await _until(lambda: caller.priority == 5)
            assert await _places(room) == [9]


async def _places(*rooms: CallPlaces) -> list[int]:
    """How many places there are in each, when they are filled one after the other."""
    taken = []
    for room in rooms:
        places = 0
        while await _acquired(room):
            places += 1
        taken.append(places)
    for room, places in zip(rooms, taken, strict=True):
        for _ in range(places):
            room.release()
    return taken


async def _acquired(room: CallPlaces) -> bool:
    entering = asyncio.create_task(room.acquire())
    for _ in range(5):
        await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait({entering})
    return not entering.cancelled()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)
