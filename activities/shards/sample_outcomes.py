"""What a sample's replicate comes to: the outcome of an answer and its grades, or of a failure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from activities.scorers.grades import Grade
from activities.targets.faults import CandidateFault
from ratchet import Output, Sample, Score
from workflows.model.failures import shorten, with_traceback, without_traceback
from workflows.model.suite import Outcome, UnscoredAnswer
from workflows.rules.scoring.objective_score import ScoringFailed

SCORER_FAILED: Final = "scorer failed"
"""The class of error by which unscored answers are counted."""


@dataclass(frozen=True, slots=True)
class PairToAnswer:
    """One replicate of one sample that has no outcome yet."""

    position: int
    item_hash: str
    replicate: int
    sample: Sample
    answer_id: int
    kept: UnscoredAnswer | None = None
    """The answer, when only its score is missing."""


def output_of(kept: UnscoredAnswer) -> Output:
    """Read an answer that was kept to be scored."""
    return Output(
        value=kept.value,
        tokens=kept.tokens,
        cost=kept.cost,
        latency_ms=kept.latency_ms,
        ttft_ms=kept.ttft_ms,
        trace=kept.trace,
        cached_tokens=kept.cached_tokens,
    )


def failed_outcome(pair: PairToAnswer, fault: CandidateFault, details: dict[str, dict[str, Any]]) -> Outcome:
    """Make the outcome of a pair that the candidate failed."""
    told = shorten(str(fault))
    return Outcome(
        item_hash=pair.item_hash,
        replicate=pair.replicate,
        status="failed",
        scores={},
        passed=False,
        error=with_traceback(told, fault.traceback),
        feedback=told,
        tokens=fault.tokens,
        cost=fault.cost,
        latency_ms=fault.latency_ms,
        trace=fault.trace,
        per_score=details,
        error_class=fault.kind,
        answer_id=pair.answer_id,
    )


def failed_as_before(kept: UnscoredAnswer, details: dict[str, dict[str, Any]]) -> Outcome:
    """Make the outcome of an answer that had failed already, for scorers that were not there then."""
    return Outcome(
        item_hash=kept.item_hash,
        replicate=kept.replicate,
        status="failed",
        scores={},
        passed=False,
        output=kept.value,
        error=kept.error,
        feedback=without_traceback(kept.error or ""),
        tokens=kept.tokens,
        cost=kept.cost,
        latency_ms=kept.latency_ms,
        trace=kept.trace,
        per_score=details,
        error_class=kept.error_class,
        answer_id=kept.answer_id,
        was_kept=True,
    )


def unscored_outcome(pair: PairToAnswer, output: Output, error: ScoringFailed, *, was_kept: bool) -> Outcome:
    """Make the outcome of an answer that a scorer failed on: what it raised belongs to the score, the answer stays."""
    return replace(
        answered_outcome(pair, output, [], was_kept=was_kept),
        status="unscored",
        error=str(error),
        error_class=SCORER_FAILED,
        fault="scorer",
    )


def answered_outcome(
    pair: PairToAnswer, output: Output, grades: Sequence[Grade], metric: str | None = None, *, was_kept: bool
) -> Outcome:
    """Make the outcome of an answer and its grades; without a metric it passes nothing."""
    scores = [grade.score for grade in grades]
    decisive = next((given for given in scores if given.name == metric), None)
    if decisive is None and metric is not None:
        names = ", ".join(given.name for given in scores)
        raise ScoringFailed(f"the objective's metric {metric!r} is not among the scores given: {names}")
    return Outcome(
        item_hash=pair.item_hash,
        replicate=pair.replicate,
        status="answered",
        scores={given.name: given.value for given in scores},
        passed=decisive is not None and bool(decisive.passed),
        output=output.value,
        feedback=feedback(scores),
        tokens=output.tokens,
        cost=output.cost,
        latency_ms=output.latency_ms,
        ttft_ms=output.ttft_ms,
        trace=output.trace,
        per_score={grade.score.name: grade.details() for grade in grades},
        scoring_tokens=sum(grade.tokens for grade in grades),
        scoring_cost=math.fsum(grade.cost for grade in grades),
        cached_tokens=output.cached_tokens,
        scoring_cached_tokens=sum(grade.cached_tokens for grade in grades),
        answer_id=pair.answer_id,
        echoed=output.overlay_hash is not None,
        was_kept=was_kept,
    )


def feedback(scores: Sequence[Score]) -> str:
    """Every scorer's reason, by the score's name where there are several."""
    told = [score for score in scores if score.reason]
    return "\n".join(f"{score.name}: {score.reason}" if len(scores) > 1 else f"{score.reason}" for score in told)
