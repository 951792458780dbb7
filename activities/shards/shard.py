"""One shard at work: its missing pairs, answered side by side under the run's limit, scored, and committed as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from activities.budget.lease import BudgetLease, Reservation
from activities.budget.metering import BudgetExhausted, NoMoreCalls
from activities.concurrency.in_flight_limits import CallPlaces
from activities.endpoints.breaker import Breaker, Effort, TargetDown
from activities.endpoints.call_context import CallContext
from activities.endpoints.gate import ClosedForLong
from activities.plugins.printed_text import PrintedText
from activities.scorers import ScorerTools
from activities.scorers.known_replies import AllReplies
from activities.shards.attempt import Attempt
from activities.shards.call_journal import ShardCalls
from activities.shards.conversations import Conversations
from activities.shards.foreseen_faults import foreseen
from activities.shards.outcome_batches import OutcomeBatches
from activities.shards.pair_calls import PairCall, Place, number_of
from activities.shards.pair_scores import PairScores
from activities.shards.sample_outcomes import PairToAnswer, output_of
from activities.shards.shard_experiment import context_of
from activities.targets import Answering
from activities.targets.already_answered import GivenAnswers
from activities.targets.faults import CandidateFault, NotSent, Refused, Unreachable
from ratchet import ExperimentContext, Output, Sample
from ratchet._formats.canonical import derive_seed
from ratchet._text.placeholders import Unfillable
from workflows.model.failures import shorten
from workflows.model.run.amounts import NOTHING, Amount, Resource
from workflows.model.run.team_rest import TeamRest
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import ShardInput, ShardResult
from workflows.rules.overlay import Overlay
from workflows.rules.scoring.error_counts import summed
from workflows.rules.spec.prompt_factors import shows_its_prompt

GRACE = 1.0
"""Seconds that calls in flight get to finish when their shard is cancelled: they are paid for already."""

_FOR_GOOD = (Refused, TargetDown)


class ShardAtWork:
    """Starts, scores and commits. Nothing it meets stops it but what no further call could survive."""

    def __init__(
        self,
        shard: ShardInput,
        suite: EvaluationSuite,
        overlay: Overlay,
        pairs: Sequence[PairToAnswer],
        *,
        target: Answering,
        scorers: ScorerTools,
        limit: CallPlaces,
        batches: OutcomeBatches,
        breaker: Breaker | None = None,
        budget_lease: BudgetLease | None = None,
        given: GivenAnswers | None = None,
        needs_budget_lease: Callable[[], bool] = lambda: False,
        attempt: Attempt | None = None,
        calls: ShardCalls | None = None,
        conversations: Conversations | None = None,
        replies: AllReplies | None = None,
    ) -> None:
        """`given` is the target when its answers are there already: all are kept, whatever becomes of their scores.
        `calls` notes each call of the target as it begins, `conversations` keep the turns of targets that have some,
        `replies` are what judges said in batches."""
        self._shard = shard
        self._suite = suite
        self._overlay = overlay
        self._shows_its_prompt = shows_its_prompt(suite.target)
        self._pairs = pairs
        self._target = target
        self._scores = PairScores(shard, suite, scorers, replies)
        self._limit = limit
        self.batches = batches
        self._breaker = breaker
        self._budget_lease = budget_lease
        self._needs_budget_lease = needs_budget_lease
        self._handing_back = False
        self._attempt = attempt
        self._calls = calls
        self._conversations = conversations
        self._given = given
        self._left_unscored = 0
        self._stored: set[tuple[int, int]] = set()
        """Pairs whose answer is on its way to the store, scored or not."""
        self.exhausted: Resource | None = None
        self._team_rest: TeamRest | None = None
        """The budget of which too little is left for another call."""
        self._in_flight: set[asyncio.Task[None]] = set()
        self._errors: dict[tuple[int, int], str] = {}
        self._scoring_errors: dict[tuple[int, int], str] = {}
        self._answered = 0
        self.errors: Counter[str] = Counter()
        """Pairs that are left without an answer, by the class of the error."""
        self.fatal: Exception | None = None
        """What ends the whole shard: a refusing endpoint, one that is closed for long, a mistake in the request or here."""

    async def run(self) -> None:
        """Answer every pair, or stop at what makes going on pointless. Cancelling stops new calls, not those in flight."""
        for pair in self._pairs:
            if self._must_stop:
                break
            await self._limit.acquire()
            place = Place(self._limit)
            call = asyncio.create_task(self._evaluate(pair, place))
            self._in_flight.add(call)
            call.add_done_callback(partial(self._ended, place))
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        if self._given is not None and self._scoring_broke:
            await self._keep_the_rest()

    @property
    def waits_for_a_budget_lease(self) -> bool:
        """The run got its first budget meanwhile: nothing more begins without one."""
        return self._budget_lease is None and self._needs_budget_lease()

    @property
    def is_cut_off(self) -> bool:
        """The worker, or this attempt, begins no further calls: what is left is for another attempt."""
        return self._attempt is not None and self._attempt.is_over

    @property
    def is_complete(self) -> bool:
        """Every pair has its answer."""
        return self._answered == len(self._pairs)

    @property
    def _scoring_broke(self) -> bool:
        """Scorers failed on more answers than they may."""
        return len(self._scoring_errors) > self._shard.most_failed_scores

    @property
    def _must_stop(self) -> bool:
        at_its_end = self.fatal is not None or self.exhausted is not None or self._handing_back or self.is_cut_off
        return at_its_end or self.waits_for_a_budget_lease or self._scoring_broke or self.batches.error is not None

    def _ended(self, place: Place, call: asyncio.Task[None]) -> None:
        # Here and not in the call itself: a task that is cancelled before its first step never runs its `finally`.
        place.give_back()
        self._in_flight.discard(call)

    async def hand_back(self) -> None:
        """After a cancellation: let calls in flight finish within a grace, end the others, commit everything there is."""
        self._handing_back = True
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=GRACE)
        for call in self._in_flight:
            call.cancel()
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        try:
            await self.batches.drain()
        except asyncio.CancelledError:
            self.batches.abandon()
            raise

    def result(self, found: int) -> ShardResult:
        return ShardResult(
            evaluated=self._answered,
            found=found,
            missing=len(self._pairs) - self._answered - self._left_unscored,
            first_error=_first(self._errors),
            errors=summed([self.errors]),
            scoring_error=_first(self._scoring_errors) if self._scoring_broke else None,
            exhausted=self.exhausted,
            team_rest=self._team_rest,
        )

    async def _evaluate(self, pair: PairToAnswer, taken: Place) -> None:
        place = (pair.position, pair.replicate)
        try:
            if self._must_stop:
                return
            outcome = await self._paid_for(pair, taken)
        except NoMoreCalls:
            return
        except BudgetExhausted as error:
            if self.exhausted is None:
                self.exhausted, self._team_rest = error.resource, error.team_rest
        except Unreachable as error:
            self.errors[error.kind] += 1
            self._errors[place] = shorten(f"sample {pair.sample.id}: {error}")
        except TargetDown as error:
            self.errors |= error.kinds
            self.fatal = error if not isinstance(self.fatal, _FOR_GOOD) else self.fatal
        except ClosedForLong as error:
            if not isinstance(self.fatal, _FOR_GOOD):
                self.fatal = error
        except Exception as error:
            if isinstance(error, Refused):
                self.errors[error.kind] += 1
            if not isinstance(self.fatal, _FOR_GOOD):
                self.fatal = error
        else:
            if outcome is None:
                return
            if outcome.status == "unscored":
                self._scoring_errors[place] = shorten(f"sample {pair.sample.id}: {outcome.error}")
            elif outcome.error is not None:
                self._errors[place] = shorten(f"sample {pair.sample.id}: {outcome.error}")
            self._answered += 1
            self._commit(pair, outcome, taken)

    def _commit(self, pair: PairToAnswer, entry: Outcome | UnscoredAnswer, taken: Place | None) -> None:
        """Its place is free again when it is in the store: so many answers, and no more, can be lost with the worker."""
        self._stored.add((pair.position, pair.replicate))
        if taken is not None:
            taken.keep()
        self.batches.add(entry, lambda: self._committed(pair, taken))

    def _committed(self, pair: PairToAnswer, taken: Place | None) -> None:
        if self._calls is not None and self.batches.error is None:
            self._calls.answered(self._number(pair))
        if taken is not None:
            taken.give_back()

    def _number(self, pair: PairToAnswer) -> int:
        return number_of(self._shard, pair.position, pair.replicate)

    async def _paid_for(self, pair: PairToAnswer, taken: Place) -> Outcome | None:
        """The outcome, within the budget if there is one; None when the shard came to its end while waiting for that."""
        if self._budget_lease is None:
            return await self._outcome_unless_down(pair, None, taken)
        reservation = await self._budget_lease.reservation(self._paid(pair), pair.answer_id)
        try:
            if self._must_stop:
                return None
            outcome = await self._outcome_unless_down(pair, reservation, taken)
            if outcome is None:
                return None
            reservation.answered(outcome.tokens + outcome.scoring_tokens, outcome.cost + outcome.scoring_cost)
            return outcome
        finally:
            reservation.close()

    def _paid(self, pair: PairToAnswer) -> Amount:
        """What was paid for it before, and is accounted for."""
        if pair.kept is not None:
            return Amount(samples=1, tokens=pair.kept.tokens, cost=pair.kept.cost) + self._scores.paid(pair)
        if self._conversations is not None:
            return self._conversations.paid(pair)
        return NOTHING if self._given is None else self._given.paid(pair.sample, pair.replicate)

    async def _outcome_unless_down(self, pair: PairToAnswer, reservation: Reservation | None, taken: Place) -> Outcome | None:
        if self._breaker is None:
            return await self._outcome(pair, reservation, taken, None)
        return await self._breaker.answered(lambda effort: self._outcome(pair, reservation, taken, effort))

    async def _outcome(
        self, pair: PairToAnswer, reservation: Reservation | None, taken: Place, effort: Effort | None
    ) -> Outcome | None:
        context = CallContext(self._limit.caller, reservation, PairCall(self._attempt), effort)
        if pair.kept is not None:
            if pair.kept.error is not None:
                return self._scores.failed_as_before(pair.kept, pair.sample)
            return await self._scores.scored(pair, output_of(pair.kept), context, was_kept=True)
        beginning, printed = PairCall(self._attempt, self._calls, self._number(pair)), PrintedText()
        turns = None if self._conversations is None else self._conversations.of(pair, self._number(pair))
        noted = replace(context, beginning=beginning, printed=printed, turns=turns)
        try:
            with foreseen("the target"):
                configuration = self._configuration(pair.sample)
                output = await self._target.answer(configuration, pair.sample, self._experiment(pair), noted)
            self._refuse_other_overlay(output)
        except CandidateFault as fault:
            return replace(self._scores.failed(pair, fault), printed=printed.text)
        if self._given is not None and self._given.scores_later:
            self._keep(pair, output, printed.text, reservation, taken)
            self._left_unscored += 1
            return None
        if self._scores.may_fail:
            self._keep(pair, output, printed.text, reservation, taken)
            return await self._scores.scored(pair, output, context, was_kept=True)
        try:
            scored = await self._scores.scored(pair, output, context, was_kept=False)
            return scored if printed.text is None else replace(scored, printed=printed.text)
        except BaseException:
            self._keep(pair, output, printed.text, reservation, taken)
            raise

    def _keep(
        self, pair: PairToAnswer, output: Output, printed: str | None, reservation: Reservation | None, taken: Place | None
    ) -> None:
        """The answer is paid for, whatever becomes of its score."""
        if reservation is not None:
            reservation.answered(output.tokens, output.cost)
        kept = UnscoredAnswer(
            answer_id=pair.answer_id,
            item_hash=pair.item_hash,
            replicate=pair.replicate,
            value=output.value,
            tokens=output.tokens,
            cost=output.cost,
            latency_ms=output.latency_ms,
            ttft_ms=output.ttft_ms,
            trace=output.trace,
            printed=printed,
            echoed=output.overlay_hash is not None,
            cached_tokens=output.cached_tokens,
        )
        self._commit(pair, kept, taken)

    async def _keep_the_rest(self) -> None:
        """Answers that came from elsewhere, and that nobody scores because scoring broke on another."""
        for pair in self._pairs:
            if pair.kept is None and (pair.position, pair.replicate) not in self._stored:
                with contextlib.suppress(CandidateFault, Unreachable):
                    output = await self._target.answer({}, pair.sample, self._experiment(pair), CallContext())
                    self._keep(pair, output, None, None, None)

    def _configuration(self, sample: Sample) -> dict[str, Any]:
        try:
            return self._overlay.for_sample(sample.input, strict=self._shows_its_prompt)
        except Unfillable as error:
            raise NotSent(f"the prompt: {error}") from None

    def _experiment(self, pair: PairToAnswer) -> ExperimentContext:
        seed = derive_seed(self._shard.seed, pair.item_hash, pair.replicate)
        return context_of(self._shard, self._suite, self._overlay, replicate=pair.replicate, seed=seed)

    def _refuse_other_overlay(self, output: Output) -> None:
        echoed, mine, told = output.overlay_hash, self._overlay.config_hash, ""
        if echoed is None and self._suite.target.demands_echo:
            told = f"the target does not say that it used overlay {mine}; target.must_echo demands the hash that it is told"
        elif echoed is not None and not self._overlay.is_named_by(echoed):
            used = shorten(echoed, 80)
            told = f"the target used overlay {used} instead of {mine}; it must answer with the configuration it is given"
        if told:
            raise CandidateFault(
                told,
                tokens=output.tokens,
                cost=output.cost,
                latency_ms=output.latency_ms,
                kind="no echo" if echoed is None else "other overlay",
                billed="yes",
            )


def _first(errors: dict[tuple[int, int], str]) -> str | None:
    """By place, not by time: the order in which calls end says nothing."""
    return errors[min(errors)] if errors else None
