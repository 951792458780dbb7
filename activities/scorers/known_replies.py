"""Replies that judges gave in batches, where a scorer looks for them before it asks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activities.targets.faults import CandidateFault, Unreachable
from ratchet import Output
from ratchet._formats.canonical import canonical_json
from store.write.answers.judge_replies import JudgeReply
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.spec.extensions.scorer_options import Scorer

NAME_CHARACTERS = 48


class ToBeAsked(Unreachable):
    """A judge has not replied to this yet. It is asked in a batch."""

    def __init__(self, name: str, messages: list[dict[str, Any]], parameters: Mapping[str, Any]) -> None:
        super().__init__("the judge is asked in a batch", kind="no verdict yet", billed="no")
        self.name = name
        self.messages = messages
        self.parameters = parameters


@dataclass(frozen=True, slots=True)
class RepliesToOne:
    """What judges replied about one answer."""

    score_key: tuple[object, ...]
    """Names the score: the answer's key, and the scorers'."""
    replies: Mapping[str, JudgeReply]
    waits: bool
    """What has no reply yet is for a batch; else it is asked at once."""

    def answer(
        self, scorer: Scorer, attempt: int, messages: list[dict[str, Any]], parameters: Mapping[str, Any]
    ) -> Output | None:
        """The reply to what a scorer asks for the so-and-so-many-th time. Raises the fault that it is, or ToBeAsked."""
        asked = canonical_json([*self.score_key, scorer.model_dump(mode="json"), attempt])
        name = hashlib.sha256(asked.encode()).hexdigest()[:NAME_CHARACTERS]
        reply = self.replies.get(name)
        if reply is None:
            if self.waits:
                raise ToBeAsked(name, messages, parameters)
            return None
        if reply.fault is not None:
            raise CandidateFault(
                reply.fault, tokens=reply.tokens, cost=reply.cost, kind=reply.kind, billed=reply.billed, latency_ms=None
            )
        return Output(value=reply.value, tokens=reply.tokens, cost=reply.cost)


@dataclass(frozen=True, slots=True)
class AllReplies:
    """What judges replied about the answers of a part of a trial, by their places."""

    replies: Mapping[int, Mapping[str, JudgeReply]]
    waits: bool = True

    def to(self, place: int, score_key: tuple[object, ...]) -> RepliesToOne:
        return RepliesToOne(score_key, self.replies.get(place, {}), self.waits)

    def took(self, place: int) -> Amount:
        """What they took, which is settled with their batches."""
        return total([reply.took for reply in self.replies.get(place, {}).values()]) if place in self.replies else NOTHING
