"""Sends what lacks an answer as a batch: once, whoever is killed on the way.

What is meant to be sent is stored first. A file goes up where there is one, which may be repeated. Then it is noted that
somebody is sending, with which file, and for how long at most; the batch is made; its name is stored. Whoever comes after one
that died in between waits until nothing of it is on its way any more, and looks for the batch at its provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.batches.batch_answers import NeverSent
from activities.batches.batch_endpoint import BatchEndpoint, BatchEndpoints
from activities.batches.judge_verdicts import Verdicts
from activities.batches.pair_requests import NamedRequest, PairRequests, TargetRequests
from activities.batches.protocols import BatchProtocol, BatchSaid, NoBatchApi, SoughtBatch, protocol_of
from activities.batches.request_file import RequestFile, batch_key
from activities.budget.external_reservations import ExternalReservations
from activities.evaluation import ShardEvaluation
from activities.shards.attempt import Attempt
from activities.shards.outcome_batches import until_back
from activities.shards.pair_calls import number_of
from activities.shards.shard_endings import CUT_OFF, RATE_LIMITED
from activities.targets.chat import BatchRequest
from activities.targets.faults import Fault, NotSent, Throttled, Unreachable
from store.write.answers.outcomes import ShardWork, UnansweredPair
from store.write.answers.sent_batches import MeantBatch, RequestFailures, SentBatch
from store.write.repositories import Store
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.activities.provider_batches import BatchInput, SubmittedBatch
from workflows.model.failures import shorten
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.spec.targets.at_most import AtMost
from workflows.model.trial import ShardInput, ShardResult
from workflows.rules.decisions.call_bounds import chat_bound
from workflows.rules.scoring.merged_parts import merged

log = structlog.get_logger("batches")

PAIRS_AT_ONCE: Final = 500
SECONDS_FOR_OTHERS: Final = 5.0
"""So long is waited at once for budget that others may give back; then Temporal waits."""

PAUSE_FOR_OTHERS: Final = timedelta(minutes=1)
LASTS_LONGER: Final = timedelta(hours=6)
"""Than its batch, before budget that is set aside is taken for that of somebody who died."""

SECONDS_UNTIL_LISTED: Final = 3.0
"""After nobody heard whether a batch was made, until the provider is asked."""


@dataclass
class Collected:
    """What was found out about a part of a trial while its requests were written."""

    until: int
    parts: list[ShardResult] = field(default_factory=list)
    asked: BatchRequest | None = None
    """The first request: which model there is asked, all others of the batch ask too."""
    dearest: Amount = NOTHING
    """The most that one request can take."""
    metered: bool = False
    given_up: dict[str, int] = field(default_factory=dict)
    first_given_up: str | None = None

    @property
    def protocol(self) -> BatchProtocol:
        """Whose batch it is going to be. Raises NoBatchApi where that has none."""
        assert self.asked is not None
        return protocol_of(self.asked.provider)

    @property
    def result(self) -> ShardResult:
        missing = sum(self.given_up.values())
        told = ShardResult(missing=missing, errors=self.given_up, first_error=self.first_given_up, metered=self.metered)
        return merged([*self.parts, told])

    def give_up(self, sample: str, kind: str, told: str) -> None:
        """A request that went as often as it may, or would be in vain."""
        self.given_up[kind] = self.given_up.get(kind, 0) + 1
        if self.first_given_up is None:
            self.first_given_up = shorten(f"sample {sample}: {told}")


class BatchSender:
    """Collects, means and sends."""

    def __init__(
        self,
        store: Store,
        shards: ShardEvaluation,
        endpoints: BatchEndpoints,
        aside: ExternalReservations,
        verdicts: Verdicts,
        is_away: Callable[[BaseException], bool],
        *,
        most_times: int,
    ) -> None:
        """`most_times` is how often a request goes that gets no answer."""
        self._store = store
        self._shards = shards
        self._endpoints = endpoints
        self._aside = aside
        self._verdicts = verdicts
        self._is_away = is_away
        self._most_times = most_times

    async def submit(self, asked: BatchInput, attempt: Attempt) -> SubmittedBatch:
        """A batch of what lacks an answer of a part, at its provider. Raises NoBatchApi where none can be made, unless the
        rules let it be asked at once."""
        try:
            return await self._made_of_missing(asked, attempt)
        except NoBatchApi as error:
            if not asked.rules.rest_directly:
                raise
            meant = await until_back(lambda: self._store.sent_batches.open_at(asked.part, asked.judge), self._is_away)
            if meant is not None:
                await self.withdraw(meant, asked.part)
            whom = "the target" if asked.judge is None else asked.judge
            log.info("asked at once, as no batch can be made", trial=asked.part.trial_id, whom=whom, error=str(error))
            return SubmittedBatch(until=asked.part.last, has_no_batches=True)

    async def withdraw(self, batch: SentBatch, part: ShardInput) -> None:
        """Give back what was set aside for a batch that was never sent, and give it up: whoever is killed in between finds it,
        and does both again."""
        if batch.holder is not None:
            calls = 0 if batch.scorer is None else batch.requests
            await self._aside.settle(part, CallsSettlement(holders=(batch.holder,), calls=calls))
        await until_back(lambda: self._store.sent_batches.withdraw(batch), self._is_away)

    async def _made_of_missing(self, asked: BatchInput, attempt: Attempt) -> SubmittedBatch:
        part = asked.part
        with TemporaryDirectory(prefix="ratchet-batch-") as folder:
            path = Path(folder, "requests.jsonl")
            # Its number first: of two attempts that know of no batch, both mean the same one.
            number = await until_back(lambda: self._store.sent_batches.next_number(part), self._is_away)
            batch = await until_back(lambda: self._store.sent_batches.open_at(part, asked.judge), self._is_away)
            if batch is not None:
                await self._send(batch, part, path, attempt, is_written=False)
                return await self._submitted(batch)
            with RequestFile(path, batch_key(part.run_id, part.trial_id, number), asked.rules.requests) as file:
                found = await self._collect(asked, file)
                if not file.places:
                    return SubmittedBatch(until=found.until, result=found.result)
                short, holder = await self._set_aside(asked, file, found, number)
                if holder is None and found.metered:
                    return short
                file.finish()
            batch = await self._meant(asked, file, found, number, holder)
            names = await self._names(batch)
            await self._send(batch, part, path, attempt, is_written=names.keys() == file.places.keys())
            sent = await self._submitted(batch)
            return sent.model_copy(update={"is_short": short.is_short, "result": found.result})

    async def _submitted(self, batch: SentBatch) -> SubmittedBatch:
        now = await until_back(lambda: self._store.sent_batches.load(batch.run_id, batch.batch_key), self._is_away)
        return SubmittedBatch(batch_key=now.batch_key, provider_id=now.provider_id, requests=now.requests, until=now.until)

    # -- what is sent ---------------------------------------------------------------------------------------------------------

    async def _collect(self, asked: BatchInput, file: RequestFile) -> Collected:
        """Write the requests of all pairs that lack an answer, or a verdict, until the file is full."""
        part, execution = asked.part, _execution()
        is_scored_here = asked.judge is None and not asked.again and not asked.rules.judges
        failures = await until_back(lambda: self._store.sent_batches.failures(part, execution), self._is_away)
        found = Collected(part.last, metered=part.metered)
        for piece in pieces_of(part):
            if asked.judge is not None and not asked.again:
                # Answers that no judge has to look at have their scores, whether a batch is sent or not.
                scored, _ = await self._verdicts.score(piece, execution, asked.rules.judges, asked.judge)
                found.parts += [] if scored is None else [scored]
            work = await self._work(piece)
            found.metered = found.metered or work.adjusted.budgeted
            found.parts.append(ShardResult(found=work.found if asked.judge is None else 0))
            if is_scored_here and any(pair.kept is not None for pair in work.pairs):
                found.parts.append(await self._shards.score_kept(piece))
            make = await self._requests(piece, work, asked.judge)
            if make is not None and not await self._written(piece, work, make, file, found, failures):
                break
        return found

    async def _requests(self, piece: ShardInput, work: ShardWork, judge: str | None) -> PairRequests | None:
        """What is asked for some pairs, if anything is."""
        if judge is None:
            return TargetRequests(self._shards, piece, work)
        requests = await self._verdicts.requests(piece, _execution(), work.pairs)
        return None if requests is None else requests.by(judge)

    async def _written(
        self,
        piece: ShardInput,
        work: ShardWork,
        make: PairRequests,
        file: RequestFile,
        found: Collected,
        failures: dict[str, RequestFailures],
    ) -> bool:
        """Write the requests of some pairs; False where the file took no more."""
        never: dict[tuple[str, int], NotSent] = {}
        is_full = False
        for pair in work.pairs:
            place = number_of(piece, pair.position, pair.replicate)
            try:
                request = await make.of(pair)
                if request is None or request.name in file.places:
                    continue
                failed = failures.get(request.name)
                if failed is not None and failed.times >= self._most_times:
                    told = f"no answer in {failed.times} batches; the last time: {failed.error_class}"
                    found.give_up(pair.sample.id, failed.error_class, told)
                    continue
                asked = request.asked
                found.asked = found.asked or asked
                is_full = asked.model != found.asked.model or not file.add(found.protocol, request.name, place, asked.body)
            except NotSent as fault:
                if pair.kept is None:
                    never[pair.sample.id, pair.replicate] = fault
                else:
                    found.give_up(pair.sample.id, fault.kind, str(fault))
                continue
            except Unreachable as fault:
                found.give_up(pair.sample.id, fault.kind, str(fault))
                continue
            if is_full:
                found.until = place
                break
            price = work.suite.prices.get(asked.model)
            found.dearest = found.dearest.or_more(chat_bound(asked.body, None if price is None else price.in_batches))
        if never:
            found.parts.append(await self._shards.take_over(piece, NeverSent(never)))
        return not is_full

    async def _set_aside(
        self, asked: BatchInput, file: RequestFile, found: Collected, number: int
    ) -> tuple[SubmittedBatch, str | None]:
        """Set aside what the requests can take, or as many of them as the budget covers: under which name, and whether it was
        short. Without a name there is nothing to be sent now."""
        part, whole = asked.part, SubmittedBatch(until=found.until, result=found.result)
        if not found.metered:
            return whole, None
        stated = AtMost(tokens=found.dearest.tokens, cost=found.dearest.cost)
        covered = await self._aside.cover(
            part,
            holder_of(number),
            len(file.places),
            stated,
            lasts=(found.protocol.lasts + LASTS_LONGER).total_seconds(),
            patience=SECONDS_FOR_OTHERS,
            samples_each=1 if asked.judge is None else 0,
        )
        if covered.short_of is None:
            cut = file.keep_first(covered.calls)
            if cut is not None:
                found.until = cut
            return whole.model_copy(update={"is_short": cut is not None}), holder_of(number)
        if not covered.others_at_work:
            short = {"exhausted": covered.short_of, "team_rest": covered.team_rest, "missing": len(file.places)}
            return whole.model_copy(update={"result": merged([found.result, ShardResult(**short)])}), None
        trial = part.model_copy(update={"first": 0})
        if await until_back(lambda: self._store.sent_batches.open_in(trial), self._is_away):
            return whole.model_copy(update={"until": part.first, "is_short": True}), None
        raise ApplicationError(
            f"the budget of {covered.short_of} covers no request until others are over",
            type=RATE_LIMITED,
            next_retry_delay=PAUSE_FOR_OTHERS,
            category=ApplicationErrorCategory.BENIGN,
        )

    async def _meant(
        self,
        asked: BatchInput,
        file: RequestFile,
        found: Collected,
        number: int,
        holder: str | None,
    ) -> SentBatch:
        part = asked.part
        assert found.asked is not None
        meant = MeantBatch(
            batch_key=batch_key(part.run_id, part.trial_id, number),
            number=number,
            first=part.first,
            until=found.until,
            execution=_execution(),
            provider=found.asked.provider,
            endpoint=found.asked.url,
            model=found.asked.model,
            holder=holder,
            places=file.places,
            scorer=asked.judge,
        )
        return await until_back(lambda: self._store.sent_batches.mean(part, meant), self._is_away)

    # -- sending it -----------------------------------------------------------------------------------------------------------

    async def _send(self, batch: SentBatch, part: ShardInput, path: Path, attempt: Attempt, *, is_written: bool) -> None:
        """Have the provider make it, unless it has."""
        if batch.state != "meant":
            return
        if batch.sender is not None and await self.found(batch) is not None:
            return
        if not is_written:
            await self._written_again(batch, part, path)
        input_file = await self._endpoint(batch).upload(path)
        await self._made(batch, path, input_file, attempt)

    async def found(self, batch: SentBatch) -> BatchSaid | None:
        """The batch at its provider, if somebody sent it who could not say so any more."""
        on_its_way = batch.longest_sending + SECONDS_UNTIL_LISTED - (batch.sending_for or 0.0)
        await asyncio.sleep(max(on_its_way, 0.0))
        said = await self._sought(batch)
        if said is not None:
            log.info("a batch was found again", batch=said.provider_id, trial=batch.trial_id)
            await self._note(batch, said)
        return said

    async def _sought(self, batch: SentBatch) -> BatchSaid | None:
        sending = self._store.sent_batches
        until = None if batch.sending_at is None else batch.sending_at + timedelta(seconds=batch.longest_sending)

        async def known(provider_ids: Collection[str]) -> set[str]:
            return await until_back(lambda: sending.known(batch.endpoint, provider_ids), self._is_away)

        sought = SoughtBatch(batch.batch_key, batch.requests, batch.input_file or None, batch.created_at, until, known)
        return await self._endpoint(batch).find(sought)

    async def _made(self, batch: SentBatch, path: Path, input_file: str, attempt: Attempt) -> None:
        sender, tries = uuid4().hex, 0
        endpoint = self._endpoint(batch)
        longest = endpoint.protocol.seconds_to_send(_size_of(path))
        while True:
            if not await self._begun(batch, sender, input_file, longest):
                told = "another attempt sends this batch"
                raise ApplicationError(told, type=CUT_OFF, category=ApplicationErrorCategory.BENIGN)
            # Whoever stood still since then asks whether this is still his to send.
            await attempt.permit()
            batch, tries = replace(batch, sender=sender, sending_for=None, sending_at=None, input_file=input_file), tries + 1
            try:
                said = await endpoint.make(path, input_file, batch.batch_key, longest)
            except Unreachable as error:
                # It may have arrived all the same.
                asked_to_wait = error.retry_after or 0.0 if isinstance(error, Throttled) else 0.0
                await asyncio.sleep(max(SECONDS_UNTIL_LISTED, asked_to_wait))
                known = await self._sought(batch)
                if known is None:
                    log.info("a batch was not made, and is tried again", trial=batch.trial_id, error=str(error))
                    if tries >= self._most_times:
                        await self._store.sent_batches.was_refused(batch, sender)
                        raise
                    continue
                said = known
            except Fault:
                await self._store.sent_batches.was_refused(batch, sender)
                raise
            await self._note(batch, said)
            return

    async def _begun(self, batch: SentBatch, sender: str, input_file: str, longest: float) -> bool:
        sending = self._store.sent_batches
        return await until_back(lambda: sending.begin_sending(batch, sender, input_file, longest), self._is_away)

    def _endpoint(self, batch: SentBatch) -> BatchEndpoint:
        return self._endpoints.at(batch.provider, batch.endpoint, batch.model)

    async def _note(self, batch: SentBatch, said: BatchSaid) -> None:
        await until_back(lambda: self._store.sent_batches.was_sent(batch, said.provider_id), self._is_away)

    async def _written_again(self, batch: SentBatch, part: ShardInput, path: Path) -> None:
        """The file of a batch that an earlier attempt meant to send: the very requests that are stored as its own."""
        names = await self._names(batch)
        protocol = protocol_of(batch.provider)
        with RequestFile(path, batch.batch_key, len(names)) as file:
            for piece in pieces_of(part.model_copy(update={"last": batch.until})):
                work = await self._work(piece)
                make = await self._requests(piece, work, batch.scorer)
                for pair in work.pairs if make is not None else ():
                    request = await self._again(make, pair)
                    if request is not None and request.name in names and request.name not in file.places:
                        file.add(protocol, request.name, names[request.name], request.asked.body)
            file.finish()

    async def _again(self, make: PairRequests | None, pair: UnansweredPair) -> NamedRequest | None:
        try:
            return None if make is None else await make.of(pair)
        except (NotSent, Unreachable):  # it is not among what was meant to be sent
            return None

    async def _names(self, batch: SentBatch) -> dict[str, int]:
        return await until_back(lambda: self._store.sent_batches.places(batch.run_id, batch.batch_key), self._is_away)

    async def _work(self, piece: ShardInput) -> ShardWork:
        return await until_back(lambda: self._store.outcomes.missing(piece), self._is_away)


def _size_of(path: Path) -> int:
    return path.stat().st_size


def pieces_of(part: ShardInput) -> Iterator[ShardInput]:
    """A part of a trial in pieces of which the store gives all at once."""
    for first in range(part.first, part.last, PAIRS_AT_ONCE):
        yield part.model_copy(update={"first": first, "last": min(first + PAIRS_AT_ONCE, part.last)})


def holder_of(number: int) -> str:
    """Under which name budget is set aside for a batch."""
    return f"batch-{number}"


def _execution() -> str:
    return str(activity.info().workflow_run_id)
