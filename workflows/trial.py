"""TrialWorkflow: one candidate, fanned out in shards, aggregated and recorded by itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows.contracts import Bookkeeping, Evaluating
    from workflows.model.failures import shorten
    from workflows.model.trial import Conclusion, ShardInput, ShardResult, TrialInput, TrialResult
    from workflows.policies import CONCLUDE, LOCAL_STORE, PENDING_SHARDS, SHARD, SHARDS_PER_TRIAL


@workflow.defn
class TrialWorkflow:
    """Evaluates one candidate. Whatever ends it, what was answered is aggregated and recorded."""

    @workflow.run
    async def run(self, trial: TrialInput) -> TrialResult:
        await workflow.execute_local_activity_method(Bookkeeping.begin_trial, trial, **LOCAL_STORE)
        conclusion = Conclusion(trial=trial)
        try:
            if not await self._evaluate_in_time(trial):
                conclusion = Conclusion(trial=trial, ended="timeout", error="the run's time budget is over")
        except asyncio.CancelledError:
            conclusion = Conclusion(trial=trial, ended="cancelled", error="the trial was cancelled")
        except ActivityError as error:
            conclusion = _concluded_by(trial, error)
        return await workflow.execute_activity_method(
            Evaluating.conclude_trial,
            conclusion,
            task_queue=trial.evaluation_task_queue,
            summary=f"aggregate {trial.candidate.candidate_id}",
            **CONCLUDE,
        )

    async def _evaluate_in_time(self, trial: TrialInput) -> bool:
        """Run every shard; False when the run's time was over first, and the shards handed back what they had."""
        if trial.deadline is None:
            await self._evaluate(trial)
            return True
        left = (trial.deadline - workflow.now()).total_seconds()
        work = asyncio.ensure_future(self._evaluate(trial))
        if left > 0:
            await workflow.wait([work], timeout=left)
        if work.done():
            work.result()
            return True
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return False

    async def _evaluate(self, trial: TrialInput) -> None:
        room = asyncio.Semaphore(PENDING_SHARDS // 4)
        await asyncio.gather(*[self._shard(trial, shard, room) for shard in shards_of(trial)])

    async def _shard(self, trial: TrialInput, shard: ShardInput, room: asyncio.Semaphore) -> ShardResult:
        async with room:
            return await workflow.execute_activity_method(
                Evaluating.evaluate_shard,
                shard,
                task_queue=trial.evaluation_task_queue,
                summary=f"{trial.candidate.candidate_id}: answers {shard.first}-{shard.last - 1}",
                **SHARD,
            )


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


def _concluded_by(trial: TrialInput, error: ActivityError) -> Conclusion:
    if is_cancelled_exception(error):
        return Conclusion(trial=trial, ended="cancelled", error="the trial was cancelled")
    return Conclusion(trial=trial, ended="error", error=shorten(str(error.cause or error)))
