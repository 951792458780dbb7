"""A trial whose samples our own workers answer: cut into shards, fanned out side by side."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence

from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows.contracts import Evaluating
from workflows.model.trial import Conclusion, ShardInput, ShardResult, TrialInput
from workflows.policies import SHARD, SHARDS_AT_ONCE, SHARDS_PER_TRIAL
from workflows.trials.endings import refuse_broken_scoring
from workflows.trials.told_calls import ToldCalls


class InShards:
    """Evaluates the shards of one trial. One that fits into a single shard is concluded with it: an activity less."""

    experiment_id = None
    looks = ()

    def __init__(self, trial: TrialInput, conclusion: Conclusion, told: ToldCalls) -> None:
        self._trial = trial
        self._conclusion = conclusion
        self._told = told
        self._room = asyncio.Semaphore(SHARDS_AT_ONCE)

    async def run(self) -> list[ShardResult]:
        """The whole trial."""
        cut = list(shards_of(self._trial))
        if len(cut) == 1:
            cut = [cut[0].model_copy(update={"concludes": self._conclusion})]
        return await self._answered(cut)

    async def answer(self, first: int, last: int, *, judged: bool = False) -> list[ShardResult]:
        """A part of it; `judged` where judges were asked for verdicts on it before."""
        cut = list(shards_of(self._trial, first, last))
        return await self._answered([shard.model_copy(update={"judged": True}) for shard in cut] if judged else cut)

    async def _answered(self, cut: Sequence[ShardInput]) -> list[ShardResult]:
        """All shards, a bounded number at once. When one of them fails for good, the others hand back what they have."""
        shards = [asyncio.ensure_future(self._shard(shard)) for shard in cut]
        try:
            return await asyncio.gather(*shards)
        except (Exception, asyncio.CancelledError):  # not GeneratorExit: a workflow that leaves the cache may await nothing
            for shard in shards:
                shard.cancel()
            await asyncio.gather(*shards, return_exceptions=True)
            raise

    async def _shard(self, shard: ShardInput) -> ShardResult:
        async with self._room:
            try:
                result = await workflow.execute_activity_method(
                    Evaluating.evaluate_shard,
                    shard,
                    task_queue=self._trial.evaluation_task_queue,
                    summary=f"{shard.candidate_id}: answers {shard.first}-{shard.last - 1}",
                    **SHARD,
                )
            except ActivityError as error:
                self._told.note_silent(shard, error)
                raise
        self._told.note(result)
        return result if result.trial is not None else refuse_broken_scoring(result)


def shards_of(trial: TrialInput, first: int | None = None, last: int | None = None) -> Iterator[ShardInput]:
    """The trial's (sample, replicate) pairs, or some of them, in contiguous ranges; large trials get larger ones, not more."""
    first = trial.first_pair if first is None else first
    last = trial.last_pair if last is None else last
    size = max(trial.calls_per_shard, math.ceil(trial.samples * trial.replicates / SHARDS_PER_TRIAL))
    for begin in range(first, last, size):
        yield shard_of(trial, begin, min(begin + size, last))


def shard_of(trial: TrialInput, first: int, last: int) -> ShardInput:
    """One range of the trial's pairs."""
    return trial.range_of(first, last)
