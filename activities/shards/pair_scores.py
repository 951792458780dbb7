"""What scorers make of an answer: its outcome with all scores, a failure, or an answer that is left without a score."""

from __future__ import annotations

from dataclasses import replace

from activities.endpoints.call_context import CallContext
from activities.scorers import ScorerTools, asks_somebody, details_of_a_failure, score
from activities.scorers.grades import Grade
from activities.scorers.known_replies import AllReplies
from activities.shards.foreseen_faults import foreseen
from activities.shards.pair_calls import number_of
from activities.shards.sample_outcomes import (
    PairToAnswer,
    answered_outcome,
    failed_as_before,
    failed_outcome,
    unscored_outcome,
)
from activities.targets.already_answered import ToAnswer
from activities.targets.faults import CandidateFault
from ratchet import Output, Sample
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import ShardInput
from workflows.rules.scoring.objective_score import ScoringFailed

LEAST_SCORING_TIME = 60.0
"""Seconds a scorer may take at least, since it may ask a model itself."""


class PairScores:
    """Has a shard's answers scored. `replies` are what judges said of them in batches."""

    def __init__(self, shard: ShardInput, suite: EvaluationSuite, tools: ScorerTools, replies: AllReplies | None) -> None:
        longest = max(LEAST_SCORING_TIME, suite.sample_timeout.total_seconds())
        self._shard = shard
        self._suite = suite
        self._tools = replace(tools, longest=longest)
        self._replies = replies
        self.may_fail = asks_somebody(suite.scorers)
        """Whether somebody is asked, who may be away or refuse, once the answer is there."""

    def paid(self, pair: PairToAnswer) -> Amount:
        """What judges were paid for it in batches."""
        return NOTHING if self._replies is None else self._replies.took(self._number(pair))

    async def scored(self, pair: PairToAnswer, output: Output, context: CallContext, *, was_kept: bool) -> Outcome:
        """The answer with its scores, and with what scorers printed."""
        outcome = await self._with_its_scores(pair, output, context, was_kept=was_kept)
        told = context.printed.text
        return outcome if told is None else replace(outcome, scorers_printed=told)

    def failed(self, pair: PairToAnswer, fault: CandidateFault) -> Outcome:
        """What the candidate failed, with the scores that says."""
        return failed_outcome(pair, fault, details_of_a_failure(self._suite.scorers, pair.sample))

    def failed_as_before(self, kept: UnscoredAnswer, sample: Sample) -> Outcome:
        """The same of a failure that was stored."""
        return failed_as_before(kept, details_of_a_failure(self._suite.scorers, sample))

    async def _with_its_scores(self, pair: PairToAnswer, output: Output, context: CallContext, *, was_kept: bool) -> Outcome:
        """One that no scorer can take is a failed outcome, and paid for as it was; one that a scorer fails on has no score."""
        try:
            with foreseen("scoring the answer"):
                grades = await self._grades(pair, output, context)
                return answered_outcome(pair, output, grades, self._suite.metric, was_kept=was_kept)
        except ScoringFailed as error:
            return unscored_outcome(pair, output, error, was_kept=was_kept)
        except CandidateFault as fault:
            fault.tokens, fault.cost, fault.latency_ms = output.tokens, output.cost, output.latency_ms
            failed = replace(self.failed(pair, fault), output=output.value, trace=output.trace, ttft_ms=output.ttft_ms)
            return replace(failed, fault="answer", was_kept=was_kept)

    async def _grades(self, pair: PairToAnswer, output: Output, context: CallContext) -> list[Grade]:
        replies = None
        if self._replies is not None:
            replies = self._replies.to(self._number(pair), score_key_of(self._shard.config_hash, self._suite, pair))
        answer_key = f"{self._shard.config_hash} {pair.item_hash} {pair.replicate}"
        tools = replace(self._tools, context=context, answer_key=answer_key, replies=replies)
        return await score(self._suite.scorers, output, pair.sample, tools)

    def _number(self, pair: PairToAnswer) -> int:
        return number_of(self._shard, pair.position, pair.replicate)


def score_key_of(config_hash: str, suite: EvaluationSuite, pair: ToAnswer) -> tuple[object, ...]:
    """What names the scores of an answer."""
    return config_hash, suite.target_fingerprint, pair.item_hash, pair.replicate, suite.scorer_fingerprint
