"""A trial whose samples a provider answers in batches, within a day and for half the price.

What lacks an answer is sent, waited for and taken; what got no answer goes again, alone. Then judges are asked for verdicts on
what was answered, each in batches of its own. Which batch is at the provider is known from the store, where it is written
before it is sent: what is lost here, an activity finds again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows.contracts import Batching
from workflows.model.activities.provider_batches import BatchInput, BatchKey, BatchLook, SubmittedBatch, TakenBatch
from workflows.model.spec.batch_options import BatchRules
from workflows.model.trial import ShardInput, ShardResult, TrialInput
from workflows.policies import AWAIT_BATCH, CANCEL_BATCHES, SUBMIT_BATCH, TAKE_BATCH
from workflows.rules.scoring.merged_parts import merged
from workflows.trials.endings import refuse_broken_scoring, to_the_end, uninterrupted
from workflows.trials.sharded import InShards, shard_of
from workflows.trials.told_calls import ToldCalls

LONGEST_NAME = 100
"""Characters of what a provider calls a batch, where people read it."""

PAUSES_GROW = 2.0
"""Before requests go again, it is waited so much longer each time."""


class InBatches:
    """Has the pairs of one trial answered in batches."""

    experiment_id = None
    looks = ()

    def __init__(self, trial: TrialInput, rules: BatchRules, directly: InShards, told: ToldCalls) -> None:
        """`directly` is the trial as it is asked at once, for what its rules leave to that."""
        self._trial = trial
        self._told = told
        self._rules = rules
        self._directly = directly
        self._verdicts = asyncio.Lock()
        """Verdicts of one batch at a time make scores, as a score may need several."""

    async def run(self) -> list[ShardResult]:
        """The whole trial."""
        return await self.answer(self._trial.first_pair, self._trial.last_pair)

    async def answer(self, first: int, last: int) -> list[ShardResult]:
        """A part of it. Whatever else ends this, batches are cancelled, and what they have done is taken."""
        part = shard_of(self._trial, first, last)
        if self._rules.rest_directly and not self._has_time:
            return await self._directly.answer(first, last)
        try:
            return await self._answered(part)
        except (Exception, asyncio.CancelledError):  # not GeneratorExit: a workflow that leaves the cache may await nothing
            await to_the_end(self._cancelled(part))
            raise

    @property
    def _has_time(self) -> bool:
        """Whether a batch that takes all of its time ends before the run's is over."""
        deadline = self._trial.deadline
        return deadline is None or deadline - workflow.now() > self._rules.lasts

    async def _answered(self, part: ShardInput) -> list[ShardResult]:
        """Answers first, then verdicts on them; what is left of both is asked at once where the rules say so."""
        results, is_done = await self._in_batches(part, (None,))
        if self._rules.judges and not is_over(results) and (self._has_time or not self._rules.rest_directly):
            verdicts, is_judged = await self._in_batches(part, self._rules.judges)
            results, is_done = [*results, *verdicts], is_done and is_judged
        elif self._rules.judges:
            is_done = False
        if self._rules.rest_directly and not is_done and not is_over(results):
            results += await self._directly.answer(part.first, part.last, judged=bool(self._rules.judges))
        return results

    async def _in_batches(self, part: ShardInput, judges: Sequence[str | None]) -> tuple[list[ShardResult], bool]:
        """Send and take until nothing goes again; whether all was answered. How often a request may go, whoever sends it
        knows."""
        results: list[ShardResult] = []
        pause, again = self._rules.poll, False
        while True:
            sent = [batch for judge in judges for batch in await self._sent(part, judge, again=again)]
            told = merged([batch.result for batch in sent])
            taken = await self._all_taken([batch for batch in sent if batch.batch_key is not None])
            results += [one.result for one in taken]
            missing = sum(one.again for one in taken)
            is_short = bool(taken) and any(batch.is_short for batch in sent)
            is_left = bool(missing) or any(batch.has_no_batches for batch in sent)
            if told.exhausted is not None or not (is_left or is_short):
                return [*results, told], True
            if self._rules.rest_directly and is_left:
                return results, False
            # What was given up is told again by whoever sends the rest.
            results.append(told.model_copy(update={"missing": 0, "first_error": None, "errors": {}}))
            again = True
            if missing:
                await workflow.sleep(pause)
                pause = min(pause * PAUSES_GROW, self._rules.longest_poll)

    async def _sent(self, part: ShardInput, judge: str | None, *, again: bool) -> list[SubmittedBatch]:
        """Batches of all that lacks an answer, or a verdict: as many as it takes, or as the budget covers."""
        sent: list[SubmittedBatch] = []
        first = part.first
        while first < part.last:
            submitted = await self._submitted(part.model_copy(update={"first": first}), judge, again=again)
            sent.append(submitted)
            self._told.note(submitted.result)
            refuse_broken_scoring(submitted.result)
            if submitted.is_short or submitted.has_no_batches or submitted.result.exhausted is not None:
                break
            first = submitted.until
        return sent

    async def _submitted(self, part: ShardInput, judge: str | None, *, again: bool) -> SubmittedBatch:
        submitting = asyncio.ensure_future(
            workflow.execute_activity_method(
                Batching.submit_batch,
                BatchInput(part=part, rules=self._rules, judge=judge, again=again),
                task_queue=self._trial.evaluation_task_queue,
                summary=f"{part.candidate_id}: send a batch of {part.first}-{part.last - 1}{f' to {judge}' if judge else ''}",
                **SUBMIT_BATCH,
            )
        )
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            # It may be sent by now: that is known from the store, once nobody is at it any more.
            submitting.cancel()
            await to_the_end(asyncio.gather(submitting, return_exceptions=True))
            raise

    async def _all_taken(self, sent: Sequence[SubmittedBatch]) -> list[TakenBatch]:
        """What became of batches that are at the provider side by side. When one breaks, the others are left."""
        waiting = [asyncio.ensure_future(self._waited_for(batch)) for batch in sent]
        try:
            return list(await asyncio.gather(*waiting))
        except (Exception, asyncio.CancelledError):
            for one in waiting:
                one.cancel()
            await to_the_end(asyncio.gather(*waiting, return_exceptions=True))
            raise

    async def _waited_for(self, sent: SubmittedBatch) -> TakenBatch:
        assert sent.batch_key is not None
        named = (sent.provider_id or "")[:LONGEST_NAME]
        # The first look is the workflow's to time; the looks after it are timed by the server, and cost no events.
        await workflow.sleep(self._rules.poll, summary=f"batch {named} of {sent.requests} requests")
        whole = shard_of(self._trial, self._trial.first_pair, self._trial.last_pair)
        batch = BatchKey(part=whole, batch_key=sent.batch_key, judges=self._rules.judges)
        await workflow.execute_activity_method(
            Batching.await_batch,
            BatchLook(batch=batch, poll=self._rules.poll, longest_poll=self._rules.longest_poll),
            task_queue=self._trial.evaluation_task_queue,
            summary=f"wait for batch {named} of {sent.requests} requests",
            **AWAIT_BATCH,
        )
        # What the batch answered is there: whatever ends the trial now, it is taken to the end.
        taken = await uninterrupted(self._taken_alone(batch) if self._rules.judges else self._taken(batch))
        refuse_broken_scoring(taken.result)
        return taken

    async def _taken_alone(self, batch: BatchKey) -> TakenBatch:
        async with self._verdicts:
            return await self._taken(batch)

    async def _taken(self, batch: BatchKey) -> TakenBatch:
        taken = await workflow.execute_activity_method(
            Batching.take_batch,
            batch,
            task_queue=self._trial.evaluation_task_queue,
            summary=f"{self._trial.candidate.candidate_id}: take the results of a batch",
            **TAKE_BATCH,
        )
        self._told.note(taken.result)
        return taken

    async def _cancelled(self, part: ShardInput) -> None:
        """Cancel what is at the provider, and take what it has done: it is paid for."""
        try:
            over = await workflow.execute_activity_method(
                Batching.cancel_batches,
                part,
                task_queue=self._trial.evaluation_task_queue,
                summary=f"cancel the batches of {self._trial.candidate.candidate_id}",
                **CANCEL_BATCHES,
            )
            for batch_key in over.batch_keys:
                await self._taken(BatchKey(part=part, batch_key=batch_key, judges=self._rules.judges))
        except ActivityError as error:
            workflow.logger.warning(f"batches of {self._trial.trial_id} could not be cancelled and taken: {error.cause}")


def is_over(results: Sequence[ShardResult]) -> bool:
    """Whether a budget ended the trial, so that nothing more is asked for."""
    return any(result.exhausted is not None for result in results)
