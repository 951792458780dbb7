"""A trial whose samples somebody else's activity answers, on a task queue of its own, in whatever language.

An activity cannot call an activity, so the trial does it: for each shard an activity of ours says what is missing, theirs
answers it, and one of ours scores and commits the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType
from temporalio.workflow import ActivityCancellationType

from ratchet._formats.canonical import canonical_json
from workflows.contracts import Delegating
from workflows.error_reason import reason_of
from workflows.model.activities.external_trials import (
    AnswersInput,
    Calls,
    CallsInput,
    GivenAnswer,
    ReservedRetries,
    RetriesInput,
)
from workflows.model.activities.own_activity_calls import FIRST_PAUSE, LONGEST_PAUSE
from workflows.model.failures import NOT_RETRYABLE, shorten
from workflows.model.run.amounts import Resource
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.targets.external import ActivityCalls
from workflows.model.trial import Resumed, ShardInput, ShardResult, TrialInput
from workflows.policies import LOAD_CALLS, ONE_CALL, PENDING_AT_ONCE, SCORE_ANSWERS
from workflows.rules.scoring.external_answers import answers_in, pair_of, size_of
from workflows.rules.scoring.merged_parts import merged
from workflows.trials.activity_calls import Portion
from workflows.trials.endings import (
    GoesOn,
    TrialEnded,
    is_being_cancelled,
    refuse_broken_scoring,
    to_the_end,
    uninterrupted,
)
from workflows.trials.pending_activities import PendingActivities
from workflows.trials.sharded import shards_of
from workflows.trials.told_calls import ToldCalls

SHARDS_SIDE_BY_SIDE = 3
"""While one shard is loaded and another one scored, a third keeps the activity busy."""

LARGEST_PART = 1_000_000
"""Bytes of answers that are scored together; Temporal takes 2 MB at once."""

LIKELY_ANSWER = 64 * 1024
"""Bytes to expect of an answer as long as none has come: they make the history grow, too."""

HOPELESS = 10
"""So many calls in a row, each given up after all its attempts, and the activity is taken to be down."""

WORKER_SHUTDOWN = "WorkerShutdown"
"""What SDKs call the error of an activity that their worker gave up because it stops."""

Sample = dict[str, JsonValue]


class ByActivity:
    """Evaluates the shards of one trial."""

    experiment_id = None
    looks = ()

    def __init__(self, trial: TrialInput, calls: ActivityCalls, told: ToldCalls) -> None:
        self._trial = trial
        self._told = told
        self._calls = calls
        self._resumed = trial.resumed or Resumed(started_at=workflow.info().start_time, next_pair=trial.first_pair)
        side_by_side = max(1, trial.concurrent_samples // (calls.batch * trial.concurrent_trials))
        self._room = PendingActivities(min(side_by_side, max(1, PENDING_AT_ONCE // trial.concurrent_trials)))
        self._largest_answer: int | None = None
        self._goes_on_at: int | None = None
        self._given_up_in_a_row = 0
        self._exhausted: Resource | None = None
        self._team_rest: TeamRest | None = None
        self._so_far = ShardResult(first_error=self._resumed.first_error, errors=self._resumed.errors)

    async def run(self) -> list[ShardResult]:
        """The whole trial."""
        return await self.answer(self._resumed.next_pair, self._trial.last_pair)

    async def answer(self, first: int, last: int) -> list[ShardResult]:
        """Shards in their order, a few of them at once. Whatever ends this, the answers that came are committed."""
        running: list[asyncio.Future[ShardResult]] = []
        try:
            await self._start(running, first, last)
            results = await asyncio.gather(*running)
        except (Exception, asyncio.CancelledError):
            for shard in running:
                shard.cancel()
            await to_the_end(asyncio.gather(*running, return_exceptions=True))
            raise
        before, self._so_far = self._so_far, merged([self._so_far, *results])
        if self._goes_on_at is not None:
            noted = {"next_pair": self._goes_on_at, "first_error": self._so_far.first_error, "errors": self._so_far.errors}
            raise GoesOn(self._resumed.model_copy(update=noted))
        return [merged([before, *results]) if first == self._resumed.next_pair else merged(results)]

    async def _start(self, running: list[asyncio.Future[ShardResult]], first: int, last: int) -> None:
        """Start shard after shard, until one fails or the history gets too long."""
        room = asyncio.Semaphore(SHARDS_SIDE_BY_SIDE)
        for shard in shards_of(self._trial, first, last):
            await room.acquire()
            if self._exhausted or any(one.done() and one.exception() is not None for one in running):
                return
            if self._must_go_on_at(shard):
                return
            task = asyncio.ensure_future(self._shard(shard))
            task.add_done_callback(lambda _: room.release())
            running.append(task)

    def _must_go_on_at(self, shard: ShardInput) -> bool:
        """Whether the history is so long that nothing more should begin. What this shard lacks is then asked for later."""
        if not workflow.info().is_continue_as_new_suggested():
            return False
        self._goes_on_at = shard.first if self._goes_on_at is None else min(self._goes_on_at, shard.first)
        return True

    async def _shard(self, shard: ShardInput) -> ShardResult:
        """Load, ask, score; in several turns when the samples do not fit into one message."""
        results: list[ShardResult] = []
        first = shard.first
        while first < shard.last and not self._exhausted and (first == shard.first or not self._must_go_on_at(shard)):
            part = shard.model_copy(update={"first": first})
            loaded = await workflow.execute_activity_method(
                Delegating.load_calls,
                CallsInput(shard=part),
                task_queue=self._trial.evaluation_task_queue,
                summary=f"{shard.candidate_id}: what is missing of {first}-{shard.last - 1}",
                **LOAD_CALLS,
            )
            first = loaded.until
            results += await self._answered_and_scored(Portion(part.model_copy(update={"last": first}), loaded))
            self._note_shortage(loaded)
        return merged(results).model_copy(update={"exhausted": self._exhausted, "team_rest": self._team_rest})

    def _note_shortage(self, told: Calls | ReservedRetries) -> None:
        if self._exhausted is None:
            self._exhausted, self._team_rest = told.exhausted, told.team_rest

    async def _answered_and_scored(self, portion: Portion) -> list[ShardResult]:
        loaded = portion.loaded
        waiting = [await uninterrupted(self._score(AnswersInput(shard=portion.shard, kept=True)))] if loaded.kept else []
        calls = [asyncio.ensure_future(self._call(portion, batch)) for batch in self._batches(loaded.samples)]
        try:
            await asyncio.gather(*calls)
        except (Exception, asyncio.CancelledError):
            for call in calls:
                call.cancel()
            await to_the_end(self._hand_back(portion, calls))
            raise
        own = self._told.note(ShardResult(found=loaded.found, lost=portion.lost))
        scored = await uninterrupted(self._scored(portion))
        return [own, *map(refuse_broken_scoring, [*waiting, *scored])]

    async def _hand_back(self, portion: Portion, calls: Sequence[asyncio.Future[None]]) -> None:
        await asyncio.gather(*calls, return_exceptions=True)
        self._told.note(ShardResult(found=portion.loaded.found, lost=portion.lost))
        await asyncio.gather(self._scored(portion), return_exceptions=True)

    def _batches(self, samples: Sequence[Sample]) -> Iterator[Sequence[Sample]]:
        for first in range(0, len(samples), self._calls.batch):
            yield samples[first : first + self._calls.batch]

    async def _call(self, portion: Portion, batch: Sequence[Sample]) -> None:
        asked: dict[str, JsonValue] = {**portion.loaded.common}
        if self._calls.batch == 1:
            asked["sample"] = batch[0]
        else:
            asked["samples"] = list(batch)
        likely = (LIKELY_ANSWER if self._largest_answer is None else self._largest_answer) * len(batch)
        async with self._room.taken(len(canonical_json(asked).encode()) + likely):
            if self._given_up_in_a_row < HOPELESS and not self._must_go_on_at(portion.shard):
                given = await self._asked(portion, asked, batch)
                self._largest_answer = max(self._largest_answer or 0, *map(size_of, given))
                portion.answers += given
                self._refuse_to_go_on_failing(given)

    async def _asked(self, portion: Portion, asked: dict[str, JsonValue], batch: Sequence[Sample]) -> list[GivenAnswer]:
        """What the activity answers. Calls that are lost with their worker are made again without limit, others are not."""
        own_errors = 0
        pause = FIRST_PAUSE
        while True:
            portion.calls += len(batch)
            try:
                returned = await self._execute(asked, batch)
            except ActivityError as error:
                if is_being_cancelled():
                    portion.never_told += len(batch)
                    raise asyncio.CancelledError from None
                cause = error.cause or error
            else:
                encoding = returned.payload.metadata.get("encoding", b"")
                return answers_in(encoding, returned.payload.data, batch, listed=self._calls.batch > 1)
            if not _is_lost_with_its_worker(cause):
                own_errors += 1
                if own_errors >= self._calls.attempts or self._is_final(cause):
                    return self._without_answer(cause, batch)
            if _was_never_told(cause):
                portion.never_told += len(batch)
            wanted = cause.next_retry_delay if isinstance(cause, ApplicationError) else None
            await workflow.sleep(wanted or pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            if not await self._covered_again(portion, len(batch)):
                missing = shorten(f"the {self._exhausted} budget covers no further attempt: {reason_of(cause)}")
                return [GivenAnswer(**pair_of(sample), missing=missing) for sample in batch]

    async def _covered_again(self, portion: Portion, calls: int) -> bool:
        """Whether the budget, if there is one, covers calls that failed once more: they may have been paid for."""
        if portion.loaded.holder is None:
            return True
        holder = portion.next_holder()
        again = await workflow.execute_activity_method(
            Delegating.reserve_retries,
            RetriesInput(shard=portion.shard, holder=holder, calls=calls),
            task_queue=self._trial.evaluation_task_queue,
            summary=f"{portion.shard.candidate_id}: budget for {calls} calls once more",
            **LOAD_CALLS,
        )
        self._note_shortage(again)
        return again.exhausted is None

    async def _execute(self, asked: dict[str, JsonValue], batch: Sequence[Sample]) -> RawValue:
        more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
        returned: RawValue = await workflow.execute_activity(
            self._calls.activity,
            asked,
            result_type=RawValue,
            task_queue=self._calls.task_queue,
            start_to_close_timeout=self._calls.timeout,
            heartbeat_timeout=self._calls.heartbeat,
            retry_policy=ONE_CALL,
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
            summary=shorten(f"{self._trial.candidate.candidate_id}: {batch[0]['id']}{more}", 150),
        )
        return returned

    def _is_final(self, cause: BaseException) -> bool:
        """Whether another call would be no use. One that took too long may have been lost, when no heartbeat would tell."""
        if isinstance(cause, TimeoutError):
            return self._calls.heartbeat is not None
        return isinstance(cause, ApplicationError) and (cause.non_retryable or cause.type in NOT_RETRYABLE)

    def _without_answer(self, cause: BaseException, batch: Sequence[Sample]) -> list[GivenAnswer]:
        """Whose fault it is: what took too long or gave up for good is the candidate's, the rest nobody's."""
        name, kind = self._calls.activity, "failed"
        fault = missing = None
        if isinstance(cause, ApplicationError) and cause.type:
            kind = f"raised {cause.type}"
        if isinstance(cause, TimeoutError) and cause.type == TimeoutType.START_TO_CLOSE:
            kind, fault = "timeout", f"{name} took longer than {self._calls.timeout.total_seconds():g} s"
        elif self._is_final(cause):
            fault = shorten(f"{name} failed: {reason_of(cause)}")
        else:
            missing = shorten(f"{name} failed {self._calls.attempts} times: {reason_of(cause)}")
        return [GivenAnswer(**pair_of(sample), fault=fault, missing=missing, kind=kind) for sample in batch]

    def _refuse_to_go_on_failing(self, given: Sequence[GivenAnswer]) -> None:
        """An activity that is down ends its trial, instead of every sample paying for its own attempts."""
        last = given[-1].missing
        self._given_up_in_a_row = 0 if last is None else self._given_up_in_a_row + 1
        if self._given_up_in_a_row >= HOPELESS:
            raise TrialEnded("error", f"gave up on the target: {HOPELESS} calls in a row got no answer; last error: {last}")

    async def _scored(self, portion: Portion) -> list[ShardResult]:
        """Score and commit, in so many parts as fit into one message each; whichever comes first settles what they took."""
        parts: list[list[GivenAnswer]] = [[]]
        size = 0
        for answer in portion.answers:
            size += size_of(answer)
            if size > LARGEST_PART and parts[-1]:
                parts.append([])
                size = size_of(answer)
            parts[-1].append(answer)
        settlement = portion.settlement
        if settlement is None:
            parts = [part for part in parts if part]
        asked = AnswersInput(shard=portion.shard, settlement=settlement)
        return await asyncio.gather(*[self._score(asked.model_copy(update={"answers": tuple(part)})) for part in parts])

    async def _score(self, asked: AnswersInput) -> ShardResult:
        which = "those that were kept" if asked.kept else f"{len(asked.answers)} answers"
        async with self._room.taken(sum(map(size_of, asked.answers)), calls=0):
            return self._told.note(
                await workflow.execute_activity_method(
                    Delegating.score_answers,
                    asked,
                    task_queue=self._trial.evaluation_task_queue,
                    summary=f"{asked.shard.candidate_id}: score {which}",
                    **SCORE_ANSWERS,
                )
            )


def _was_never_told(cause: BaseException) -> bool:
    """Whether the call may have been answered: what a worker cannot tell the server in time is asked for once more."""
    return isinstance(cause, TimeoutError) or _is_lost_with_its_worker(cause)


def _is_lost_with_its_worker(cause: BaseException) -> bool:
    if isinstance(cause, TimeoutError):
        return cause.type == TimeoutType.HEARTBEAT
    return isinstance(cause, ApplicationError) and cause.type == WORKER_SHUTDOWN
