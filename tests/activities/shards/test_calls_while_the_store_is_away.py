"""While the store is away a worker begins no more calls than it may lose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support import evaluation_plugins
from tests.support.evaluation_doubles import MemoryStore, activity_environment, evaluation, samples, scored_by, shard, suite
from workflows.model.suite import Outcome
from workflows.model.trial import ShardInput

CONCURRENT = 4


class AwayStore(MemoryStore):
    """A store that takes nothing until it is told to."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.back = asyncio.Event()
        self.asked = asyncio.Event()

    async def commit_outcomes(self, shard: ShardInput, evaluator: str, outcomes: Sequence[Outcome], *more: Any) -> None:
        self.asked.set()
        await self.back.wait()
        await super().commit_outcomes(shard, evaluator, outcomes, *more)


@pytest.mark.parametrize("scorer", [None, "raising_score"], ids=["scored", "kept"])
async def test_no_more_calls_begin_than_can_be_lost_however_long_the_store_is_away(scorer: str | None) -> None:
    evaluation_plugins.calls.clear()
    scorers = {} if scorer is None else {"scorers": scored_by(scorer)}
    store = AwayStore(suite("patient", **scorers), samples(40))
    async with evaluation(store) as evaluating:
        shards = [shard(first + 20, first=first, concurrent_samples=CONCURRENT) for first in (0, 20)]
        work = asyncio.gather(*[activity_environment().run(evaluating.evaluate_shard, one) for one in shards])
        await store.asked.wait()
        for _ in range(200):  # whatever could begin has begun
            await asyncio.sleep(0)
        while evaluation_plugins.in_flight:
            await asyncio.sleep(0)
        assert len(evaluation_plugins.calls) <= CONCURRENT
        store.back.set()
        await work
    assert len(evaluation_plugins.calls) == len(set(evaluation_plugins.calls))
    if scorer is None:
        assert len(store.outcomes) == 40


async def test_a_store_that_refuses_for_good_leaves_no_place_taken() -> None:
    evaluation_plugins.calls.clear()
    store = MemoryStore(suite("patient"), samples(8))
    async with evaluation(store) as evaluating:
        first = shard(4, concurrent_samples=2)
        refused = activity_environment()
        loaded = store.load_shard

        async def load_then_refuse(one: ShardInput) -> Any:
            work = await loaded(one)
            store.refuses_for_good = True
            return work

        store.load_shard = load_then_refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(ValueError, match="the table is not there"):
            await refused.run(evaluating.evaluate_shard, first)
        store.load_shard, store.refuses_for_good = loaded, False  # type: ignore[method-assign]
        async with asyncio.timeout(30):
            await activity_environment().run(evaluating.evaluate_shard, shard(8, concurrent_samples=2))
    assert len(store.outcomes) == 8
