"""Trials whose samples a provider answers in batches: what is missing goes out as a batch, is waited for, and is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.batches.batch_endpoint import BatchEndpoint, BatchEndpoints
from activities.batches.batch_results import LOOKS_UNTIL_LOST, LOST, BatchResults
from activities.batches.batch_sender import BatchSender, holder_of
from activities.batches.judge_verdicts import Verdicts
from activities.batches.protocols import NoSuchBatch, NotYetKnown
from activities.budget.external_reservations import ExternalReservations
from activities.budget.metering import NoMoreCalls
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.gate import ClosedForLong
from activities.evaluation import ShardEvaluation
from activities.shards.attempt import Attempt, CallsEnd
from activities.shards.heartbeat import heartbeating
from activities.shards.outcome_batches import until_back
from activities.shards.shard_endings import CUT_OFF, RATE_LIMITED
from activities.targets.faults import CandidateFault, Fault, Refused, Unreachable
from store.errors import store_errors
from store.write.answers.sent_batches import SentBatch
from store.write.repositories import Store
from workflows.contracts import Batching
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.activities.provider_batches import (
    BatchEnd,
    BatchInput,
    BatchKey,
    BatchLook,
    OverBatches,
    SubmittedBatch,
    TakenBatch,
)
from workflows.model.failures import PERMANENT_TARGET_ERROR, shorten
from workflows.model.spec.batch_options import BatchRules
from workflows.model.trial import ShardInput

log = structlog.get_logger("batches")

NOT_OVER: Final = "BatchNotOver"
"""The error of a look at a batch that goes on."""

LOOKS_GROW: Final = 1.5
AFTER_ITS_TIME: Final = timedelta(hours=2)
"""A batch that takes so much longer than its provider has for it is cancelled."""

LONGEST_CANCELLATION: Final = timedelta(hours=1)
"""One that is still not over then counts as lost."""

SECONDS_TO_FINISH_SENDING: Final = 30.0
"""That a batch which is being sent gets when its trial is cancelled: what is on its way may arrive."""

ATTEMPTS_TO_SEND: Final = 20
ATTEMPTS_TO_TAKE: Final = 150
"""Each has its own patience, and those that were lost with a worker count. What a batch has answered is paid for: a day is not
too long to fetch it."""

FIRST_PAUSE: Final = timedelta(seconds=10)
LONGEST_PAUSE: Final = timedelta(minutes=10)
BETWEEN_LOOKS_AT_A_CANCELLED: Final = timedelta(seconds=10)


class BatchEvaluation(Batching):
    """Stands between trials and the batch APIs of providers."""

    def __init__(
        self,
        store: Store,
        shards: ShardEvaluation,
        models: ChatModels,
        *,
        is_away: Callable[[BaseException], bool],
        calls_end: CallsEnd | None = None,
    ) -> None:
        self._store = store
        self._is_away = is_away
        self._calls_end = calls_end
        self._endpoints = BatchEndpoints(models)
        self._aside = ExternalReservations(store.budgets, is_away, shards.meters)
        verdicts = Verdicts(store, shards, models, is_away)
        self._sender = BatchSender(
            store, shards, self._endpoints, self._aside, verdicts, is_away, most_times=models.patience.attempts
        )
        self._results = BatchResults(store, shards, self._endpoints, self._aside, verdicts, is_away)

    async def close(self) -> None:
        """End what this worker started."""
        await self._endpoints.close()

    @activity.defn(name="submit_batch")
    async def submit_batch(self, asked: BatchInput) -> SubmittedBatch:
        attempt = Attempt(self._calls_end)
        async with heartbeating(attempt.ticked_in_silence):
            with store_errors(), endpoint_errors(ATTEMPTS_TO_SEND, asked.rules):
                submitting = asyncio.create_task(self._sender.submit(asked, attempt))
                try:
                    return await asyncio.shield(submitting)
                except asyncio.CancelledError:
                    await asyncio.wait({submitting}, timeout=SECONDS_TO_FINISH_SENDING)
                    submitting.cancel()
                    await asyncio.wait({submitting})
                    raise

    @activity.defn(name="await_batch")
    async def await_batch(self, look: BatchLook) -> BatchEnd:
        async with heartbeating():
            with store_errors(), endpoint_errors(ATTEMPTS_TO_TAKE):
                return await self._looked(look)

    async def _looked(self, look: BatchLook) -> BatchEnd:
        batch = await self._loaded(look.batch)
        if batch.state != "sent":
            return BatchEnd(said=batch.said or batch.state)
        assert batch.provider_id is not None
        info = activity.info()
        waited = info.current_attempt_scheduled_time - info.scheduled_time
        try:
            said = await self._endpoint(batch).look(batch.provider_id)
        except NoSuchBatch:
            unknown = await until_back(lambda: self._store.sent_batches.note_unknown(batch), self._is_away)
            if unknown >= LOOKS_UNTIL_LOST:
                return BatchEnd(said=LOST)
            raise self._not_over(look, batch, "its provider does not know it") from None
        except Unreachable as error:
            raise self._not_over(look, batch, f"nobody says how it stands: {error}") from None
        await until_back(
            lambda: self._store.sent_batches.note(batch, said.status, said.finished, said.failed, ended=said.has_ended),
            self._is_away,
        )
        longest = self._endpoint(batch).protocol.lasts + AFTER_ITS_TIME
        if said.has_ended or waited > longest + LONGEST_CANCELLATION:
            return BatchEnd(said=said.status)
        if waited > longest:
            await self._endpoint(batch).cancel(batch.provider_id)
        done = f"{said.finished + said.failed:,} of {batch.requests:,} done"
        raise self._not_over(look, batch, f"{said.status}, {done}")

    def _not_over(self, look: BatchLook, batch: SentBatch, told: str) -> ApplicationError:
        """What says when the next look is due. Temporal waits for it."""
        tries = min(activity.info().attempt, 50)
        return ApplicationError(
            shorten(f"batch {batch.provider_id} goes on: {told}"),
            type=NOT_OVER,
            next_retry_delay=min(look.poll * LOOKS_GROW**tries, look.longest_poll),
            category=ApplicationErrorCategory.BENIGN,
        )

    @activity.defn(name="take_batch")
    async def take_batch(self, batch: BatchKey) -> TakenBatch:
        async with heartbeating():
            with store_errors(), endpoint_errors(ATTEMPTS_TO_TAKE):
                return await self._results.take(batch)

    @activity.defn(name="cancel_batches")
    async def cancel_batches(self, part: ShardInput) -> OverBatches:
        async with heartbeating():
            with store_errors(), endpoint_errors(ATTEMPTS_TO_TAKE):
                return await self._cancelled(part)

    async def _cancelled(self, part: ShardInput) -> OverBatches:
        await self._give_back_what_no_batch_has(part)
        batches = await until_back(lambda: self._store.sent_batches.open_in(part), self._is_away)
        over = [batch.batch_key for batch in batches if await self._is_over(part, batch)]
        left = [batch for batch in batches if batch.batch_key not in over]
        still = [now for batch in left if (now := await self._reloaded(batch)).is_open]
        if still:
            raise ApplicationError(
                f"{len(still)} cancelled batches are not over yet",
                type=NOT_OVER,
                next_retry_delay=BETWEEN_LOOKS_AT_A_CANCELLED if activity.info().attempt > 3 else None,
                category=ApplicationErrorCategory.BENIGN,
            )
        return OverBatches(batch_keys=tuple(over))

    async def _is_over(self, part: ShardInput, batch: SentBatch) -> bool:
        """Whether a batch has results to take. One that goes on is cancelled, one that was never sent is withdrawn."""
        if batch.state == "meant":
            try:
                is_sent = batch.sender is not None and await self._sender.found(batch) is not None
            except NotYetKnown as error:
                log.info("a batch cannot be cancelled before it is known which it is", trial=batch.trial_id, error=str(error))
                return False
            if not is_sent:
                await self._sender.withdraw(batch, part)
                return False
            batch = await self._reloaded(batch)
        assert batch.provider_id is not None
        try:
            said = await self._endpoint(batch).look(batch.provider_id)
            if not said.has_ended:
                await self._endpoint(batch).cancel(batch.provider_id)
                said = await self._endpoint(batch).look(batch.provider_id)
        except NoSuchBatch:
            return True
        await until_back(
            lambda: self._store.sent_batches.note(batch, said.status, said.finished, said.failed, ended=said.has_ended),
            self._is_away,
        )
        return said.has_ended

    async def _give_back_what_no_batch_has(self, part: ShardInput) -> None:
        """Whoever set budget aside and was killed before he said for which batch has sent nothing."""
        number = await until_back(lambda: self._store.sent_batches.next_number(part), self._is_away)
        await self._aside.settle(part, CallsSettlement(holders=(holder_of(number),)))

    def _endpoint(self, batch: SentBatch) -> BatchEndpoint:
        return self._endpoints.at(batch.provider, batch.endpoint, batch.model)

    async def _loaded(self, key: BatchKey) -> SentBatch:
        return await until_back(lambda: self._store.sent_batches.load(key.part.run_id, key.batch_key), self._is_away)

    async def _reloaded(self, batch: SentBatch) -> SentBatch:
        return await until_back(lambda: self._store.sent_batches.load(batch.run_id, batch.batch_key), self._is_away)


@contextmanager
def endpoint_errors(most_attempts: int, rules: BatchRules | None = None) -> Iterator[None]:
    """What an endpoint does, as Temporal is told: whether trying again can help, when, and how often."""
    try:
        yield
    except ClosedForLong as error:
        raise _later(str(error), timedelta(seconds=error.seconds)) from error
    except NoMoreCalls as error:
        raise ApplicationError(str(error), type=CUT_OFF, category=ApplicationErrorCategory.BENIGN) from None
    except NotYetKnown as error:
        first, longest = (FIRST_PAUSE, LONGEST_PAUSE) if rules is None else (rules.poll, rules.longest_poll)
        raise _later(str(error), min(first * LOOKS_GROW ** min(activity.info().attempt, 50), longest)) from None
    except Unreachable as error:
        tries = activity.info().attempt
        if tries >= most_attempts:
            raise _for_good(error, f"tried {tries} times: {error}") from None
        raise _later(str(error), min(FIRST_PAUSE * LOOKS_GROW ** min(tries, 50), LONGEST_PAUSE)) from None
    except (Refused, CandidateFault) as error:
        raise _for_good(error, str(error)) from None


def _later(told: str, pause: timedelta) -> ApplicationError:
    return ApplicationError(shorten(told), type=RATE_LIMITED, next_retry_delay=pause, category=ApplicationErrorCategory.BENIGN)


def _for_good(error: Fault, told: str) -> ApplicationError:
    return ApplicationError(shorten(told), {"errors": {error.kind: 1}}, type=PERMANENT_TARGET_ERROR, non_retryable=True)
