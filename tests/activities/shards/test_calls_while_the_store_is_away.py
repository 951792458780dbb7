"""While the store is away a worker begins no more calls than it may lose."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.exceptions import ApplicationError

from tests.support import evaluation_plugins
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.suite_building import samples, scored_by, shard, suite

pytestmark = pytest.mark.usefixtures("measured_runs")

CONCURRENT = 4


@pytest.mark.parametrize("scorer", [None, "raising_score"], ids=["scored", "kept"])
async def test_no_more_calls_begin_than_can_be_lost_however_long_the_store_is_away(scorer: str | None) -> None:
    evaluation_plugins.calls.clear()
    scorers = {} if scorer is None else {"scorers": scored_by(scorer)}
    run = MeasuredRun(suite("patient", **scorers), samples(40))
    async with evaluation(run) as evaluating:
        shards = [shard(first + 20, first=first, concurrent_samples=CONCURRENT) for first in (0, 20)]
        async with run.database.locked("answers"):
            work = asyncio.gather(*[activity_environment().run(evaluating.evaluate_shard, one) for one in shards])
            await run.database.until_somebody_waits()
            for _ in range(200):  # whatever could begin has begun
                await asyncio.sleep(0)
            while evaluation_plugins.in_flight:
                await asyncio.sleep(0)
            assert len(evaluation_plugins.calls) <= CONCURRENT
        await work
    assert len(evaluation_plugins.calls) == len(set(evaluation_plugins.calls))
    if scorer is None:
        assert len(await run.outcomes()) == 40


async def test_a_store_that_refuses_for_good_leaves_no_place_taken() -> None:
    evaluation_plugins.calls.clear()
    run = MeasuredRun(suite("patient"), samples(8))
    async with evaluation(run) as evaluating:
        first = shard(4, concurrent_samples=2)
        async with run.database.refusing_rows("answers"):
            with pytest.raises(ApplicationError, match="refuses this for good"):
                await activity_environment().run(evaluating.evaluate_shard, first)
        async with asyncio.timeout(30):
            await activity_environment().run(evaluating.evaluate_shard, shard(8, concurrent_samples=2))
    assert len(await run.outcomes()) == 8
