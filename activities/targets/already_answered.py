"""Answers that came from elsewhere, as a target that has them already: what follows is the same as for any other target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from activities.endpoints.call_context import CallContext
from activities.targets.answers import output_from
from activities.targets.faults import CandidateFault, Unreachable
from ratchet import ExperimentContext, Output, Sample
from workflows.model.activities.external_trials import GivenAnswer
from workflows.model.failures import shorten
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.suite import UnscoredAnswer
from workflows.rules.scoring.external_answers import bill_of

KNOWN = ("value", "tokens", "cost", "latency_ms", "ttft_ms", "trace", "overlay_hash", "scores", "cached_tokens")


class ToAnswer(Protocol):
    """One replicate of one sample, and what is kept of it."""

    @property
    def sample(self) -> Sample: ...
    @property
    def item_hash(self) -> str: ...
    @property
    def replicate(self) -> int: ...
    @property
    def kept(self) -> UnscoredAnswer | None: ...


class GivenAnswers:
    """Answers by sample and replicate. With `complete`, a pair that has none counts as missing, else it is left alone; with
    `kept`, one whose answer is in the store is scored."""

    scores_later = False
    """Whether they are kept without a score, which others make."""

    def __init__(self, answers: Iterable[GivenAnswer], *, complete: bool, kept: bool = False) -> None:
        self._complete = complete
        self._kept = kept
        self._answers: dict[tuple[str, int], GivenAnswer] = {}
        for given in answers:
            self._answers.setdefault((given.sample_id, given.replicate), given)

    def concern(self, pair: ToAnswer) -> bool:
        is_known = (pair.sample.id, pair.replicate) in self._answers
        return self._complete or is_known or (self._kept and pair.kept is not None)

    def paid(self, sample: Sample, replicate: int) -> Amount:
        """What is settled of it already: whoever made the call had set it aside."""
        given = self._answers.get((sample.id, replicate))
        if given is None or given.missing is not None:
            return NOTHING
        return Amount(samples=1) + bill_of(given.answer)

    async def answer(
        self, configuration: Mapping[str, Any], sample: Sample, experiment: ExperimentContext, context: CallContext
    ) -> Output:
        given = self._answers.get((sample.id, experiment.replicate))
        if given is None:
            raise Unreachable(f"replicate {experiment.replicate} has no answer", kind="no answer")
        if given.missing is not None:
            raise Unreachable(given.missing, kind=given.kind)
        if given.fault is not None:
            raise CandidateFault(given.fault, kind=given.kind)
        return output_of(given.answer)


def output_of(answer: Any) -> Output:
    """An answer in JSON: text, or an object with `value` or `error`."""
    if isinstance(answer, str):
        return output_from(answer)
    if not isinstance(answer, Mapping):
        raise CandidateFault(f"the answer is unusable: it is a {type(answer).__name__}; give text, or an object with value")
    if answer.get("error") is not None:
        raise _failed(answer)
    if "value" not in answer:
        keys = shorten(", ".join(sorted(answer)), 200) or "nothing"
        raise CandidateFault(f"the answer is unusable: it has neither value nor error, but {keys}")
    return output_from(Output(**{name: answer[name] for name in KNOWN if answer.get(name) is not None or name == "value"}))


def _failed(answer: Mapping[str, Any]) -> CandidateFault:
    """What failed may have cost something all the same."""
    bill = output_from(Output(value="", **{name: answer[name] for name in ("tokens", "cost", "latency_ms") if name in answer}))
    return CandidateFault(
        shorten(f"target failed: {answer['error']}"),
        tokens=bill.tokens,
        cost=bill.cost,
        latency_ms=bill.latency_ms,
        kind="target failed",
    )
