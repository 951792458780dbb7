"""Outcomes on their way to the store: none is left behind, whenever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from activities.shards.outcome_batches import OutcomeBatches
from store.connection import is_away
from workflows.model.suite import Outcome, UnscoredAnswer


def outcome(name: str) -> Outcome:
    return Outcome(item_hash=name, replicate=0, status="answered", scores={}, passed=True)


async def test_one_that_comes_in_the_moment_in_which_a_batch_is_done_is_committed_though_nobody_adds_another() -> None:
    committed: list[str] = []
    stored = asyncio.Event()

    async def commit(batch: Sequence[Outcome | UnscoredAnswer]) -> None:
        committed.extend(one.item_hash for one in batch)

    def first_is_settled() -> None:
        # Like a call that is answered at the same time: after the last look for more, and before the batch is over.
        asyncio.get_running_loop().call_soon(lambda: batches.add(outcome("second"), stored.set))

    batches = OutcomeBatches(commit, is_away)
    batches.add(outcome("first"), first_is_settled)
    await asyncio.wait_for(stored.wait(), timeout=10)
    assert committed == ["first", "second"]
