"""Takes what became of a batch: its answers go the way of all answers, and what got none is named, to go again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, Literal

import structlog
from temporalio.exceptions import ApplicationError

from activities.batches.batch_answers import BatchAnswers
from activities.batches.batch_endpoint import BatchEndpoint, BatchEndpoints
from activities.batches.batch_sender import pieces_of
from activities.batches.judge_verdicts import Verdicts
from activities.batches.protocols import NO_ANSWER, BatchSaid, NoSuchBatch
from activities.batches.result_file import ModelAsked, ResultFiles
from activities.budget.external_reservations import ExternalReservations
from activities.endpoints.endpoint_policy import ModelPlace
from activities.evaluation import ShardEvaluation
from activities.shards.outcome_batches import until_back
from activities.targets.faults import Refused, Unreachable
from store.write.answers.judge_replies import JudgeReply
from store.write.answers.sent_batches import SentBatch
from store.write.repositories import Store
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.activities.provider_batches import BatchKey, TakenBatch
from workflows.model.failures import PERMANENT_TARGET_ERROR, shorten
from workflows.model.trial import ShardInput, ShardResult
from workflows.rules.scoring.merged_parts import merged

log = structlog.get_logger("batches")

LOOKS_UNTIL_LOST: Final = 3
"""So often in a row a provider says that it knows no such batch, before it is believed."""

LOST: Final = "batch lost"
"""The class of the error of requests whose batch their provider does not know any more."""


class BatchResults:
    """Reads, settles, scores, commits, and closes a batch."""

    def __init__(
        self,
        store: Store,
        shards: ShardEvaluation,
        endpoints: BatchEndpoints,
        aside: ExternalReservations,
        verdicts: Verdicts,
        is_away: Callable[[BaseException], bool],
    ) -> None:
        self._store = store
        self._shards = shards
        self._endpoints = endpoints
        self._aside = aside
        self._verdicts = verdicts
        self._is_away = is_away

    async def take(self, key: BatchKey) -> TakenBatch:
        """Everything that a batch has answered, in the store. Doing it twice changes nothing."""
        batches = self._store.sent_batches
        batch = await until_back(lambda: batches.load(key.part.run_id, key.batch_key), self._is_away)
        if not batch.is_open and batch.scorer is not None:
            return await self._judged(batch, key)
        if not batch.is_open:
            return TakenBatch(
                result=ShardResult(), again=await until_back(lambda: batches.without_answer(batch), self._is_away)
            )
        part = key.part.model_copy(update={"first": batch.first, "last": batch.until})
        said = await self._look(batch)
        if said is None or not said.has_ended:
            return await self._lost(batch, part)
        if said.standing == "refused":
            return await self._not_begun(batch, part, said)
        with TemporaryDirectory(prefix="ratchet-batch-") as folder:
            files = await self._endpoint(batch).download(said, Path(folder))
            return await self._taken(batch, part, key, said, files)

    def _endpoint(self, batch: SentBatch) -> BatchEndpoint:
        return self._endpoints.at(batch.provider, batch.endpoint, batch.model)

    async def _look(self, batch: SentBatch) -> BatchSaid | None:
        assert batch.provider_id is not None
        try:
            return await self._endpoint(batch).look(batch.provider_id)
        except NoSuchBatch:
            unknown = await until_back(lambda: self._store.sent_batches.note_unknown(batch), self._is_away)
            if unknown >= LOOKS_UNTIL_LOST:
                return None
            raise Unreachable(f"{batch.endpoint}: it does not know batch {batch.provider_id}") from None

    async def _taken(self, batch: SentBatch, part: ShardInput, key: BatchKey, said: BatchSaid, files: list[Path]) -> TakenBatch:
        suite = await until_back(lambda: self._store.suites.load(part.run_id, part.split), self._is_away)
        names = await until_back(lambda: self._store.sent_batches.places(batch.run_id, batch.batch_key), self._is_away)
        price = suite.prices.get(batch.model)
        endpoint, place = self._endpoint(batch), ModelPlace(batch.provider, batch.endpoint, batch.model)
        asked = ModelAsked(batch.model, place, endpoint.protocol, None if price is None else price.in_batches)
        results = ResultFiles(files, asked)
        await asyncio.to_thread(results.note, names.keys())
        without = _without_answer(names, results)
        # What a provider says to be done, and shows no line of, may have been paid for.
        unheard = sum(name not in results.lines for name in without) if said.standing == "answered" else 0
        await self._settle(part, batch, results, unheard)
        taken: list[ShardResult] = []
        for piece in pieces_of(part) if batch.scorer is None else ():
            answers = BatchAnswers(results, suite, part.config_hash, scores_later=bool(key.judges))
            taken.append(await self._shards.take_over(piece, answers))
        replies = {} if batch.scorer is None else await asyncio.to_thread(results.replies)
        await self._close(batch, "taken", said.status, without, replies)
        log.info(
            "batch taken", batch=batch.provider_id, status=said.status, answers=len(names) - len(without), again=len(without)
        )
        self._refuse_for_good(names, results)
        lost = ShardResult(lost=0 if batch.holder is not None else unheard)
        if batch.scorer is None:
            return TakenBatch(result=merged([*taken, lost]), again=len(without))
        judged = await self._judged(batch, key)
        return judged.model_copy(update={"result": merged([judged.result, lost])})

    async def _judged(self, batch: SentBatch, key: BatchKey) -> TakenBatch:
        """The scores that a judge's replies make, with those of others. Doing it twice changes nothing."""
        assert batch.scorer is not None
        scored: list[ShardResult] = []
        again = 0
        for piece in pieces_of(key.part.model_copy(update={"first": batch.first, "last": batch.until})):
            result, left = await self._verdicts.score(piece, batch.execution, key.judges or (batch.scorer,), batch.scorer)
            scored += [] if result is None else [result]
            again += left
        return TakenBatch(result=merged(scored), again=again)

    async def _settle(self, part: ShardInput, batch: SentBatch, results: ResultFiles, unheard: int) -> None:
        """Book what the answers took before they are stored: what is set aside for them is no longer."""
        if batch.holder is None:
            return
        taken, dearest = results.taken, results.dearest
        settlement = CallsSettlement(
            holders=(batch.holder,),
            answered=taken.samples if batch.scorer is None else 0,
            calls=0 if batch.scorer is None else batch.requests,
            unanswered=unheard,
            tokens=taken.tokens,
            cost=taken.cost,
            most_tokens_per_sample=dearest.tokens,
            most_cost_per_sample=dearest.cost,
        )
        await self._aside.settle(part, settlement)

    async def _lost(self, batch: SentBatch, part: ShardInput) -> TakenBatch:
        """Its provider does not know it any more, or does not end it: what it took, nobody will hear. Its requests go again."""
        log.warning("a provider has lost a batch", batch=batch.provider_id, at=batch.endpoint, requests=batch.requests)
        names = await until_back(lambda: self._store.sent_batches.places(batch.run_id, batch.batch_key), self._is_away)
        if batch.holder is not None:
            await self._aside.settle(part, _settlement(batch, unanswered=batch.requests))
        await self._close(batch, "lost", LOST, dict.fromkeys(names, LOST))
        lost = 0 if batch.holder is not None else batch.requests
        return TakenBatch(result=ShardResult(lost=lost), again=len(names))

    async def _not_begun(self, batch: SentBatch, part: ShardInput, said: BatchSaid) -> TakenBatch:
        """The provider refused the batch as a whole, and asked the model for nothing."""
        names = await until_back(lambda: self._store.sent_batches.places(batch.run_id, batch.batch_key), self._is_away)
        code, message = said.error or ("", "no reason given")
        if batch.holder is not None:
            await self._aside.settle(part, _settlement(batch))
        kind = code.replace("_", " ") or "batch failed"
        await self._close(batch, "taken", said.status, dict.fromkeys(names, kind))
        if not said.begins_later:
            told = f"model {batch.model!r} at {batch.endpoint}: it refused batch {batch.provider_id}: {code} {message}"
            raise ApplicationError(
                shorten(told), {"errors": {kind: len(names)}}, type=PERMANENT_TARGET_ERROR, non_retryable=True
            )
        return TakenBatch(result=ShardResult(), again=len(names))

    async def _close(
        self,
        batch: SentBatch,
        state: Literal["taken", "lost"],
        said: str,
        without: Mapping[str, str],
        replies: Mapping[str, JudgeReply] = MappingProxyType({}),
    ) -> None:
        closing = self._store.sent_batches
        await until_back(lambda: closing.is_over(batch, state, said, without, replies), self._is_away)

    def _refuse_for_good(self, names: Mapping[str, int], results: ResultFiles) -> None:
        """End the trial where the endpoint refuses, as it ends where it does so at once."""
        refused = [name for name in names if name in results.lines and results.lines[name].verdict == "refused"]
        if not refused:
            return
        errors = Counter(results.lines[name].error_class for name in refused)
        try:
            results.output(refused[0])
        except Refused as fault:
            raise ApplicationError(
                shorten(str(fault)), {"errors": dict(errors)}, type=PERMANENT_TARGET_ERROR, non_retryable=True
            ) from None


def _settlement(batch: SentBatch, unanswered: int = 0) -> CallsSettlement:
    """The end of what was set aside for a batch that has answered nothing."""
    calls = 0 if batch.scorer is None else batch.requests
    return CallsSettlement(holders=(batch.holder or "",), unanswered=unanswered, calls=calls)


def _without_answer(names: Mapping[str, int], results: ResultFiles) -> dict[str, str]:
    """The requests that got none, each with the class of the error."""
    without: dict[str, str] = {}
    for name in names:
        line = results.lines.get(name)
        if line is None or line.verdict != "answer":
            without[name] = NO_ANSWER if line is None else line.error_class or NO_ANSWER
    return without
