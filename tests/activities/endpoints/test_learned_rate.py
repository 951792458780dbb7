"""What an endpoint takes is learned from its complaints: quickly, with few of them, and by all workers together."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from activities.concurrency.in_flight_limits import NOBODY, Caller
from activities.endpoints.gate import Gate
from activities.endpoints.rate_memory import SharedRateMemory
from activities.targets.faults import Throttled
from store.connection import Database, is_away
from store.write.repositories import Store
from tests.support.virtual_time import Endpoint, StoredElsewhere, called, in_virtual_time
from workflows.rules.learned_rate import SLOWEST_RATE, Learned, Throttle, after


@pytest.fixture(autouse=True)
def the_same_every_time() -> None:
    random.seed(7)


class TestAnEndpointThatNobodyKnows:
    @pytest.mark.parametrize("workers", [1, 3])
    @pytest.mark.parametrize("tells", ["exactly", "whole seconds", "nothing"])
    def test_one_that_takes_200_a_second_is_used_up_with_few_complaints(self, workers: int, tells: Any) -> None:
        endpoint = Endpoint(200, burst=200, tells=tells)
        seconds = in_virtual_time(called(endpoint, 3000, workers=workers))
        assert endpoint.answered == 3000
        assert seconds <= 1.1 * 3000 / 200
        assert endpoint.share_refused <= 0.015

    def test_so_is_one_that_hardly_allows_a_burst(self) -> None:
        endpoint = Endpoint(200, burst=20)
        assert in_virtual_time(called(endpoint, 3000, workers=3)) <= 1.35 * 3000 / 200
        assert endpoint.share_refused <= 0.01

    def test_so_is_one_that_begins_with_a_large_burst(self) -> None:
        endpoint = Endpoint(200, burst=4000)
        in_virtual_time(called(endpoint, 8000))
        assert endpoint.share_refused <= 0.02

    def test_so_are_slow_ones(self) -> None:
        for per_second in (2.0, 20.0):
            endpoint = Endpoint(per_second, burst=per_second, tells="whole seconds")
            assert in_virtual_time(called(endpoint, round(30 * per_second))) <= 1.3 * 30, per_second
            assert endpoint.refused <= 30, per_second

    def test_one_that_never_complains_is_soon_called_as_fast_as_it_answers(self) -> None:
        endpoint = Endpoint(1e6, burst=1e6, seconds=0.2)
        assert in_virtual_time(called(endpoint, 10_000, at_once=256)) <= 10_000 / 256 * 0.2 + 3

    def test_a_few_calls_at_once_are_never_held_up(self) -> None:
        endpoint = Endpoint(1e6, burst=1e6, seconds=1.0, reaction=0.0)
        assert in_virtual_time(called(endpoint, 640, at_once=64)) <= 10 * 1.2

    def test_refusals_that_tell_nothing_make_it_slow_and_it_comes_back(self) -> None:
        async def outage() -> tuple[float, float]:
            rate_memory, endpoint = StoredElsewhere(), Endpoint(200, burst=200, tells="nothing")
            await called(endpoint, 3000, rate_memory=rate_memory)
            endpoint.per_second, endpoint._tokens = 0.001, 0.0
            outage = asyncio.ensure_future(called(endpoint, 2000, rate_memory=rate_memory))
            await asyncio.sleep(60)
            assert rate_memory.learned is not None
            slow = rate_memory.learned.rate
            endpoint.per_second, endpoint._tokens = 200, 0.0
            began = asyncio.get_running_loop().time()
            await outage
            return slow, asyncio.get_running_loop().time() - began

        slow, seconds = in_virtual_time(outage())
        assert slow < 20
        assert seconds < 60


class TestWhatIsKnown:
    def test_the_next_run_begins_with_it(self) -> None:
        async def twice() -> int:
            rate_memory, endpoint = StoredElsewhere(), Endpoint(200, burst=200)
            await called(endpoint, 3000, rate_memory=rate_memory)
            before = endpoint.refused
            await called(endpoint, 3000, workers=3, rate_memory=rate_memory)
            return endpoint.refused - before

        assert in_virtual_time(twice()) <= 10

    def test_an_endpoint_that_takes_more_later_is_called_more(self) -> None:
        async def raised() -> float:
            rate_memory, endpoint = StoredElsewhere(), Endpoint(50, burst=50)
            await called(endpoint, 1000, rate_memory=rate_memory)
            endpoint.per_second = endpoint.burst = 400
            return await called(endpoint, 20_000, rate_memory=rate_memory)

        assert in_virtual_time(raised()) <= 180

    def test_one_that_takes_less_later_is_called_less(self) -> None:
        async def lowered() -> tuple[float, int]:
            rate_memory, endpoint = StoredElsewhere(), Endpoint(400, burst=400)
            await called(endpoint, 4000, rate_memory=rate_memory)
            endpoint.per_second, endpoint.burst, endpoint.refused = 50, 50, 0
            return await called(endpoint, 1000, rate_memory=rate_memory), endpoint.refused

        seconds, refused = in_virtual_time(lowered())
        assert seconds <= 1.2 * 20
        assert refused <= 60

    def test_a_rate_that_nobody_uses_does_not_climb(self) -> None:
        known = Learned(1, 100.0, 110.0, calls_let_in=5.0, counted_seconds=3.0)
        for _ in range(1000):
            known = known.used_by(1, 0.5)
        assert known.rate <= 110

    def test_it_never_comes_to_a_standstill(self) -> None:
        known = Learned(1, 5.0, None)
        for revision in range(1, 200):
            throttle = Throttle(revision, took=0, retry_after=1.0, refused=1)
            known = after(known.used_by(1, 0.01), throttle, ahead=0.1, age=1.0, closed=1.0)
            assert known.lowest >= SLOWEST_RATE
            assert known.rate >= SLOWEST_RATE

    def test_complaints_about_calls_of_before_teach_nothing(self) -> None:
        known = Learned(4, 100.0, 110.0)
        assert after(known, Throttle(3, took=50, retry_after=0.0), ahead=0.0, age=9.0, closed=0.0) == known

    def test_the_first_complaints_of_several_workers_add_up(self) -> None:
        first = after(None, Throttle(0, took=60, retry_after=0.0), ahead=0.0, age=0.0, closed=0.0)
        second = after(first, Throttle(0, took=80, retry_after=0.0), ahead=0.0, age=0.1, closed=0.0)
        late = after(second, Throttle(0, took=80, retry_after=0.0), ahead=0.0, age=5.0, closed=0.0)
        assert (first.rate, second.rate, late) == (30, 70, second)


class TestInTheStore:
    def rate_memory(self, store: Store, model: str = "m") -> SharedRateMemory:
        return SharedRateMemory(store.learned_rates, ("http://one/v1", model), is_away)

    async def test_what_one_worker_learns_all_others_know(self, store: Store) -> None:
        one, other = self.rate_memory(store), self.rate_memory(store)
        assert await one.known() is None
        learned = await one.throttled(Throttle(0, took=200, retry_after=0.0))
        assert await other.known() == learned
        assert await self.rate_memory(store, "another").known() is None

    async def test_starts_are_leased_from_all_workers_together(self, store: Store) -> None:
        one, other = self.rate_memory(store), self.rate_memory(store)
        known = await one.throttled(Throttle(0, took=200, retry_after=0.0))
        assert known.rate == 100
        first, _ = await one.lease(known, 20, 0)
        second, _ = await other.lease(known, 20, 0)
        assert first <= 0.0
        assert 0.1 <= second <= 0.2

    async def test_a_retry_after_closes_the_gate_of_all_workers(self, store: Store) -> None:
        known = await self.rate_memory(store).throttled(Throttle(0, took=200, retry_after=3.0))
        wait, _ = await self.rate_memory(store).lease(known, 1, 0)
        assert 2.8 <= wait <= 3.0

    async def test_complaints_that_come_together_are_about_one_mistake(self, store: Store, database: Database) -> None:
        rate_memory = [self.rate_memory(store) for _ in range(8)]
        known = await rate_memory[0].throttled(Throttle(0, took=200, retry_after=0.0))
        async with database.connection() as connection:
            await connection.execute("UPDATE learned_rates SET learned_at = learned_at - interval '1 s'")
        told = await asyncio.gather(*[one.throttled(Throttle(known.revision, took=50, retry_after=0.0)) for one in rate_memory])
        assert {learned.revision for learned in told} == {2}

    async def test_it_teaches_what_it_teaches_one_process_alone(self, store: Store) -> None:
        """The store's arithmetic and that of `OwnRateMemory` are the same."""
        alone = StoredElsewhere()
        shared = self.rate_memory(store)
        known, own = [await rate_memory.throttled(Throttle(0, took=100, retry_after=0.0)) for rate_memory in (shared, alone)]
        for _ in range(30):
            (_, leased), (_, mine) = await shared.lease(known, 4, 1), await alone.lease(own, 4, 1)
            assert leased is not None
            assert mine is not None
            known, own = leased, mine
        assert (known.calls_let_in, known.revision) == (own.calls_let_in, own.revision)
        assert known.counted_seconds == pytest.approx(own.counted_seconds, abs=0.05)
        assert known.used == pytest.approx(own.used, abs=0.05)

    async def test_a_store_that_lost_it_lets_calls_through(self, store: Store, database: Database) -> None:
        gate = Gate(self.rate_memory(store))
        with pytest.raises(Throttled):
            await _refused(gate)
        await gate.enter(NOBODY)
        async with database.connection() as connection:
            await connection.execute("TRUNCATE learned_rates")
        async with asyncio.timeout(30):
            await gate.enter(NOBODY)
            await gate.enter(NOBODY)
        assert gate.rate is None


async def _refused(gate: Gate) -> None:
    async with gate.call(Caller("run")):
        raise Throttled("429", None)
