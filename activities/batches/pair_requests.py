"""What is asked in batches of the pairs of a trial: the target for answers, or a judge for verdicts on those that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from activities.batches.request_file import custom_id
from activities.endpoints.chat_models import ChatModels, body_of
from activities.evaluation import ShardEvaluation
from activities.scorers import grades_of_one
from activities.scorers.known_replies import AllReplies, ToBeAsked
from activities.shards.pair_calls import number_of
from activities.shards.pair_scores import score_key_of
from activities.shards.sample_outcomes import output_of
from activities.targets.chat import BatchRequest
from activities.targets.faults import NotSent, Unreachable
from ratchet import Sample
from ratchet._text.placeholders import Unfillable
from store.write.answers.outcomes import ShardWork, UnansweredPair
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import ShardInput
from workflows.rules.overlay import Overlay
from workflows.rules.spec.prompt_factors import shows_its_prompt


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A request of a batch."""

    name: str
    asked: BatchRequest


class PairRequests(Protocol):
    """Makes requests for pairs."""

    async def of(self, pair: UnansweredPair) -> NamedRequest | None:
        """What is asked for a pair; None where nothing is. Raises NotSent where it cannot be made, and Unreachable where
        asking is over and brought nothing."""
        ...


class AskedInBatches(Protocol):
    """A target that says what is sent for a sample."""

    async def batch_request(self, configuration: Any, sample: Sample) -> BatchRequest: ...


class TargetRequests:
    """Asks a target for the answers of one configuration that are missing."""

    def __init__(self, shards: ShardEvaluation, piece: ShardInput, work: ShardWork) -> None:
        self._suite = work.suite
        self._config_hash = piece.config_hash
        self._target: AskedInBatches = shards.target_of(work.suite)  # type: ignore[assignment]
        self._overlay = Overlay(piece.config_hash, work.configuration, work.suite.prompt)
        self._strict = shows_its_prompt(work.suite.target)

    async def of(self, pair: UnansweredPair) -> NamedRequest | None:
        if pair.kept is not None:
            return None
        try:
            configuration = self._overlay.for_sample(pair.sample.input, strict=self._strict)
        except Unfillable as error:
            raise NotSent(f"the prompt: {error}") from None
        name = custom_id(self._config_hash, self._suite, pair.item_hash, pair.replicate)
        return NamedRequest(name, await self._target.batch_request(configuration, pair.sample))


class JudgeRequests:
    """Asks judges for verdicts on answers that are kept, as far as their replies are not there."""

    def __init__(
        self, shards: ShardEvaluation, models: ChatModels, piece: ShardInput, suite: EvaluationSuite, replies: AllReplies
    ) -> None:
        self._piece = piece
        self._suite = suite
        self._models = models
        self._replies = replies
        self._tools = shards.scorers_of(suite)
        self._judges = dict(placed_scorers(suite.scorers))

    def by(self, judge: str) -> OneJudge:
        """The requests to one of them."""
        return OneJudge(self, judge)

    async def next(self, judge: str, pair: UnansweredPair) -> NamedRequest | None:
        """What a judge is to be asked about an answer; None where its verdict is there, or not needed. Raises Unreachable
        where it gave none, however often it was asked."""
        if pair.kept is None or pair.kept.error is not None:
            return None
        place = number_of(self._piece, pair.position, pair.replicate)
        replies = self._replies.to(place, score_key_of(self._piece.config_hash, self._suite, pair))
        scorer = self._judges[judge]
        try:
            await grades_of_one(scorer, output_of(pair.kept), pair.sample, replace(self._tools, replies=replies))
        except ToBeAsked as asked:
            assert scorer.asked_model is not None
            at = self._models.lists.model_place(scorer.asked_model.model, scorer.asked_model.base_url)
            body = body_of(at, asked.messages, asked.parameters)
            return NamedRequest(asked.name, BatchRequest(scorer.asked_model.model, at.provider, at.url, body))
        except Unreachable:
            raise
        except Exception:  # whoever scores meets it again, and tells it apart
            return None
        return None

    async def is_judged(self, judges: Sequence[str], pair: UnansweredPair) -> bool:
        """Whether nothing more is to be asked about an answer."""
        try:
            return not any([await self.next(judge, pair) for judge in judges])
        except Unreachable:
            return False


@dataclass(frozen=True, slots=True)
class OneJudge:
    """What one judge is asked."""

    requests: JudgeRequests
    judge: str

    async def of(self, pair: UnansweredPair) -> NamedRequest | None:
        return await self.requests.next(self.judge, pair)
