"""TrialWorkflow: one candidate, fanned out in shards, aggregated and recorded by itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Self

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows.contracts import Bookkeeping, Evaluating
    from workflows.inputs import refuse_other_than_one
    from workflows.model.failures import shorten
    from workflows.model.trial import Conclusion, ShardInput, ShardResult, TrialInput, TrialResult
    from workflows.policies import CONCLUDE, LOCAL_STORE, SHARD, SHARDS_AT_ONCE, SHARDS_PER_TRIAL


class ScoringBroke(Exception):
    """A scorer failed on one shard; the others need not be paid for."""


@workflow.defn
class TrialWorkflow:
    """Evaluates one candidate. Whatever ends it, what was answered is aggregated and recorded."""

    def __new__(cls, *inputs: object) -> Self:
        refuse_other_than_one(inputs, "TrialInput")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, trial: TrialInput) -> None:
        """Takes what it is started with, so that a wrong start is noticed before anything else."""

    @workflow.run
    async def run(self, trial: TrialInput) -> TrialResult:
        await workflow.execute_local_activity_method(Bookkeeping.begin_trial, trial, **LOCAL_STORE)
        conclusion = await self._evaluated(trial.model_copy(update={"ledger": ()}))
        return await workflow.execute_activity_method(
            Evaluating.conclude_trial,
            conclusion,
            task_queue=trial.evaluation_task_queue,
            summary=f"aggregate {trial.candidate.candidate_id}",
            **CONCLUDE,
        )

    async def _evaluated(self, trial: TrialInput) -> Conclusion:
        """Run every shard, and say how that ended."""
        conclusion = Conclusion(trial=trial, started_at=workflow.info().start_time)
        try:
            results = await self._evaluate_in_time(trial)
        except ScoringBroke as broke:
            return conclusion.model_copy(update={"scoring_error": str(broke)})
        except (asyncio.CancelledError, ActivityError) as error:
            if is_cancelled_exception(error):
                return conclusion.model_copy(update={"ended": "cancelled", "error": "the trial was cancelled"})
            cause = error.cause if isinstance(error, ActivityError) else None
            return conclusion.model_copy(update={"ended": "error", "error": shorten(_message(cause or error))})
        if results is None:
            return conclusion.model_copy(update={"ended": "timeout", "error": "the run's time budget is over"})
        return conclusion.model_copy(update={"error": next((r.first_error for r in results if r.first_error), None)})

    async def _evaluate_in_time(self, trial: TrialInput) -> list[ShardResult] | None:
        """Every shard's result; None when the run's time was over first, and the shards handed back what they had."""
        if trial.deadline is None:
            return await self._evaluate(trial)
        left = (trial.deadline - workflow.now()).total_seconds()
        work = asyncio.ensure_future(self._evaluate(trial))
        if left > 0:
            await workflow.wait([work], timeout=left)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return None

    async def _evaluate(self, trial: TrialInput) -> list[ShardResult]:
        """All shards, a bounded number at once. When one of them fails for good, the others hand back what they have."""
        room = asyncio.Semaphore(SHARDS_AT_ONCE)
        shards = [asyncio.ensure_future(self._shard(trial, shard, room)) for shard in shards_of(trial)]
        try:
            return await asyncio.gather(*shards)
        except BaseException:
            for shard in shards:
                shard.cancel()
            await asyncio.gather(*shards, return_exceptions=True)
            raise

    async def _shard(self, trial: TrialInput, shard: ShardInput, room: asyncio.Semaphore) -> ShardResult:
        async with room:
            result = await workflow.execute_activity_method(
                Evaluating.evaluate_shard,
                shard,
                task_queue=trial.evaluation_task_queue,
                summary=f"{trial.candidate.candidate_id}: answers {shard.first}-{shard.last - 1}",
                **SHARD,
            )
        if result.scoring_error is not None:
            raise ScoringBroke(result.scoring_error)
        return result


def shards_of(trial: TrialInput) -> Iterator[ShardInput]:
    """The trial's (sample, replicate) pairs in contiguous ranges; large trials get larger shards, not more of them."""
    pairs = trial.samples * trial.replicates
    size = max(trial.calls_per_shard, math.ceil(pairs / SHARDS_PER_TRIAL))
    for first in range(0, pairs, size):
        yield ShardInput(
            run_id=trial.run_id,
            trial_id=trial.trial_id,
            candidate_id=trial.candidate.candidate_id,
            config_hash=trial.candidate.config_hash,
            split=trial.split,
            first=first,
            last=min(first + size, pairs),
            replicates=trial.replicates,
            first_replicate=trial.candidate.first_replicate,
            concurrent_samples=trial.concurrent_samples,
            seed=trial.seed,
            round=trial.candidate.round,
        )


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, ApplicationError) else str(error)
