"""Requests and tokens per minute that several workers share, through a real PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import chain
from typing import Any

import pytest

from activities.concurrency.in_flight_limits import Caller, FairQueue
from activities.concurrency.shared_rate_limits import SharedLimits
from activities.endpoints.gate import Gates
from store.connection import Database, is_away
from store.write.limits.rate_limits import RateLimits
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun, PostgresServer
from workflows.model.spec.limits import RateLimit

URL, MODEL = "http://one/v1", "m"
PER_SECOND_100 = RateLimit(requests_per_minute=6000)


def worker(store: Store, **limits: RateLimit) -> SharedLimits:
    """What one worker process has; several share a store."""
    return SharedLimits(store.rate_limits, is_away, limits)


async def start(limits: SharedLimits, calls: int, caller: Caller | None = None, tokens: int = 0) -> list[float]:
    """When each of so many calls was let in."""
    began: list[float] = []
    caller = caller or Caller("run")

    async def call() -> None:
        limited = limits.of(URL, MODEL, caller)
        for limit in limited:
            await limit.enter(caller)
        began.append(time.monotonic())
        for limit in limited:
            limit.took(tokens)

    await asyncio.gather(*[call() for _ in range(calls)])
    return began


class TestRequests:
    async def test_a_limit_is_one_for_all_workers(self, store: Store) -> None:
        workers = [worker(store, m=PER_SECOND_100) for _ in range(3)]
        started = time.monotonic()
        began = sorted(chain(*await asyncio.gather(*[start(one, 40) for one in workers])))
        # 50 of the 120 are half a second that nobody had used.
        assert 0.6 <= began[-1] - started <= 1.5
        for place in range(60):
            assert began[place + 60] - began[place] >= 0.05, "60 calls at once, where 50 may come together"

    async def test_the_limit_of_a_run_is_its_own(self, store: Store) -> None:
        limits, started = worker(store), time.monotonic()
        slow = Caller("slow", rate_limits={MODEL: RateLimit(requests_per_minute=600)})
        slowly, fast = await asyncio.gather(start(limits, 12, slow), start(limits, 500, Caller("fast")))
        assert max(fast) - started < 0.5
        assert 0.5 <= max(slowly) - started <= 1.5

    async def test_an_endpoint_may_be_named_by_its_url(self, store: Store) -> None:
        limits, started = (
            SharedLimits(store.rate_limits, is_away, {f"{URL}/": RateLimit(requests_per_minute=600)}),
            time.monotonic(),
        )
        assert max(await start(limits, 12)) - started >= 0.5

    async def test_what_was_not_used_long_ago_is_not_caught_up_with(self, store: Store) -> None:
        limits = worker(store, m=PER_SECOND_100)
        await start(limits, 1)
        await asyncio.sleep(0.6)
        started = time.monotonic()
        began = await start(limits, 100)
        assert sum(moment - started < 0.1 for moment in began) <= 65

    async def test_a_call_that_was_cancelled_while_it_waited_stops_nobody(self, store: Store) -> None:
        limits = worker(store, m=RateLimit(requests_per_minute=600))
        await start(limits, 3)
        waiting = asyncio.create_task(start(limits, 5))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.wait({waiting})
        async with asyncio.timeout(3):
            assert len(await start(limits, 3)) == 3

    async def test_few_statements_are_enough(self, database: Database) -> None:
        leases = 0

        class Counting(RateLimits):
            async def lease_starts(self, *wanted: Any) -> float:
                nonlocal leases
                leases += 1
                return await super().lease_starts(*wanted)

        limits = SharedLimits(Counting(database), is_away, {MODEL: RateLimit(requests_per_minute=60_000)})
        await start(limits, 1000)
        assert leases <= 60

    async def test_a_limit_that_is_raised_holds_for_those_who_wait(self, store: Store) -> None:
        limits = worker(store)
        caller = Caller("run", rate_limits={MODEL: RateLimit(requests_per_minute=60)})
        waiting = asyncio.create_task(start(limits, 12, caller))
        await asyncio.sleep(0.05)
        caller.rate_limits = {MODEL: RateLimit(requests_per_minute=60_000)}
        await start(limits, 1, caller)
        async with asyncio.timeout(6):  # one batch of the old limit, of four calls, had been leased
            await waiting


class TestTokens:
    async def test_what_calls_take_bounds_how_many_start(self, store: Store) -> None:
        limits = worker(store, m=RateLimit(tokens_per_minute=60_000))  # 1,000 a second
        await start(limits, 1, tokens=100)
        started = time.monotonic()
        began = await start(limits, 12, tokens=100)
        assert 0.4 <= max(began) - started <= 2.0

    async def test_calls_that_take_more_than_was_expected_are_made_up_for(self, store: Store) -> None:
        limits = worker(store, m=RateLimit(tokens_per_minute=60_000))
        await start(limits, 1, tokens=2_000)
        started = time.monotonic()
        await start(limits, 1)
        assert time.monotonic() - started >= 1.2


class TestPriorities:
    async def test_higher_ones_get_more_and_the_lowest_is_not_starved(self, store: Store) -> None:
        """At a limit for everybody, from workers of their own."""
        counts: Counter[str] = Counter()

        async def keep_calling(run_id: str, priority: int) -> None:
            limits = worker(store, m=PER_SECOND_100)
            gate, caller = Gates(limits).at(URL, MODEL), Caller(run_id, priority)

            async def calls() -> None:
                while True:
                    await gate.enter(caller)
                    counts[run_id] += 1

            await asyncio.gather(*[calls() for _ in range(20)])

        running = [asyncio.create_task(keep_calling(f"priority {number}", number)) for number in (1, 3, 5)]
        await asyncio.sleep(0.5)
        counts.clear()
        async with asyncio.timeout(20):
            while counts.total() < 210:
                await asyncio.sleep(0.01)
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        assert 2 <= counts["priority 1"] < counts["priority 3"] < counts["priority 5"], counts
        assert counts["priority 5"] >= 2.5 * counts["priority 3"], counts

    async def test_a_run_that_comes_back_after_every_turn_gains_nothing_by_it(self) -> None:
        queue, turns = FairQueue(), Counter[str]()
        often, many = Caller("often", 1), Caller("many", 3)
        for _ in range(100):
            queue.add(many)
        mine = queue.add(often)
        for _ in range(100):
            queue.admit()
            turns["often" if mine.done() else "many"] += 1
            mine = queue.add(often) if mine.done() else mine
        assert 15 <= turns["often"] <= 25


class TestTheStore:
    async def test_one_that_is_away_pauses_calls_and_fails_none(self, mortal_postgres: PostgresServer) -> None:
        database = await Database.open(mortal_postgres.url(await mortal_postgres.new_database(template="template0")))
        limits = worker(Store(database), m=RateLimit(requests_per_minute=1200))
        await start(limits, 15)
        mortal_postgres.kill()
        waiting = asyncio.create_task(start(limits, 5))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        mortal_postgres.start()
        async with asyncio.timeout(20):
            assert len(await waiting) == 5
        await database.close()

    async def test_one_that_refuses_for_good_says_so(self, store: Store, database: Database) -> None:
        async with database.connection() as connection:
            await connection.execute("DROP TABLE rate_limits")
        with pytest.raises(Exception, match="rate_limits"):
            await start(worker(store, m=PER_SECOND_100), 1)

    async def test_a_deleted_run_leaves_nothing_of_its_limits(self, example: ExampleRun, database: Database) -> None:
        run = await example.open()
        await start(worker(run.store), 1, Caller(run.run_id, rate_limits={MODEL: PER_SECOND_100}))
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM rate_limits") == 1
            await run.store.runs.delete(run.run_id)
            assert await connection.fetchval("SELECT count(*) FROM rate_limits") == 0
