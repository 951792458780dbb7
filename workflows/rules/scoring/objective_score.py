"""From outcomes to one number: per-sample means, statistics of a trial, the objective, and which score is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real

from pydantic import Field

from ratchet._frozen import Payload
from ratchet.optimizer import Direction
from workflows.model.run.numbers import LARGEST_SCORE
from workflows.model.spec.objective import OVER_LABELS, Component, Objective
from workflows.model.trial import TrialSummary
from workflows.rules.scoring.classification import Classification

MEANS_OVER_SAMPLES = ("mean", "success_rate", "accuracy")


class ScoringFailed(ValueError):
    """A trial whose score cannot be computed: no samples, NaN, infinity, or a scorer that raised."""


class MetricStatistics(Payload):
    """One score over a trial: sums weighted by sample, so that every objective follows from them."""

    mean: float
    success_rate: float
    successes: int


class TrialStatistics(Payload):
    """What objectives are computed from."""

    samples: int = 0
    """Samples with at least one answer."""
    outcomes: int = 0
    """Answers, failed ones included."""
    passed: int = 0
    failed: int = 0
    coverage: float = 0.0
    unscored: int = 0
    """Answers that a scorer failed on; they count for nothing."""
    total_tokens: int = 0
    scoring_tokens: int = 0
    """How many of them were spent on scoring."""
    total_cost: float = 0.0
    avg_latency_ms: float | None = None
    avg_ttft_ms: float | None = None
    errors: dict[str, int] = Field(default_factory=dict)
    """Answers that failed or are missing, by the class of the error."""
    metrics: dict[str, MetricStatistics] = Field(default_factory=dict)
    classification: dict[str, Classification] = Field(default_factory=dict)
    """For each scorer of kind classification: how often each label was right, missed, and given in another's place."""

    @property
    def summary(self) -> TrialSummary:
        return TrialSummary(
            total=self.outcomes,
            passed=self.passed,
            failed=self.failed,
            pass_rate=self.passed / self.outcomes if self.outcomes else 0.0,
            total_cost=self.total_cost,
            total_tokens=self.total_tokens,
            avg_latency_ms=self.avg_latency_ms,
            avg_ttft_ms=self.avg_ttft_ms,
            errors=self.errors,
        )


def weighted_mean(weighted: Sequence[tuple[float, float]]) -> float:
    """Σ weight · value ÷ Σ weight, exactly rounded unless the sums overflow, and finite even then."""
    try:
        mean = math.fsum(weight * value for weight, value in weighted) / math.fsum(weight for weight, _ in weighted)
        if math.isfinite(mean):
            return mean
    except (OverflowError, ValueError):
        pass
    heaviest = max(weight for weight, _ in weighted)
    total = math.fsum(weight / heaviest for weight, _ in weighted)
    return math.fsum(weight / heaviest / total * value for weight, value in weighted)


def plain_mean(values: Sequence[float]) -> float:
    """Σ value ÷ their number, in the same way."""
    return weighted_mean([(1.0, value) for value in values])


def is_mean_over_samples(objective: Objective) -> bool:
    """Whether some of the samples tell of all of them."""
    parts: Sequence[Objective | Component] = objective.components or [objective]
    return all(part.kind in MEANS_OVER_SAMPLES for part in parts)


def objective_score(objective: Objective, metric: str, trial: TrialStatistics) -> float:
    """The one number, for every kind of objective but `python`, which is a plug-in's."""
    if trial.outcomes == 0:
        raise ScoringFailed("no sample has an answer")
    if objective.kind == "weighted":
        parts = [(part.weight, _part_score(part, metric, trial)) for part in objective.components]
        return finite(weighted_mean(parts))
    return finite(_part_score(objective, metric, trial))


def _part_score(part: Objective | Component, metric: str, trial: TrialStatistics) -> float:
    name = part.metric or metric
    if part.kind not in OVER_LABELS:
        return _kind_score(part.kind, name, trial)
    if name not in trial.classification:
        raise ScoringFailed(f"{part.kind} needs the labels of a scorer of kind classification, and {name!r} is none")
    return trial.classification[name].measure(part.kind, part.average, part.positive)


def _kind_score(kind: str, metric: str, trial: TrialStatistics) -> float:
    if metric not in trial.metrics:
        raise ScoringFailed(f"no scorer gave the score {metric!r}; scores are {', '.join(trial.metrics) or 'none'}")
    statistics_of_metric = trial.metrics[metric]
    match kind:
        case "mean":
            return statistics_of_metric.mean
        case "success_rate":
            return statistics_of_metric.success_rate
        case "cost_efficiency":
            tokens = trial.total_tokens - trial.scoring_tokens
            return statistics_of_metric.successes * 1000 / tokens if tokens > 0 else 0.0
    raise ScoringFailed(f"unknown objective kind {kind!r}")


def finite(score: object) -> float:
    """The score as a float; NaN, infinity, what is no number and what is too large to compute with are refused."""
    try:
        if isinstance(score, Real) and not isinstance(score, bool) and math.isfinite(score):
            return computable(float(score))
    except OverflowError:
        raise ScoringFailed("score is a whole number too large to compute with") from None
    raise ScoringFailed(f"score is {score!r}, which is not a finite number")


def computable(score: float) -> float:
    """The score, unless sums and variances of such ones would be infinite."""
    if abs(score) > LARGEST_SCORE:
        raise ScoringFailed(f"score is {score:g}; give a number between {-LARGEST_SCORE:g} and {LARGEST_SCORE:g}")
    return score


def is_better(score: float, than: float, direction: Direction) -> bool:
    """Strictly better: equal scores keep the earlier candidate."""
    return score > than if direction is Direction.MAXIMIZE else score < than


def gain(score: float, over: float, direction: Direction) -> float:
    """How much better, positive when better."""
    return score - over if direction is Direction.MAXIMIZE else over - score


_COMPONENT_WORDS = {
    "success_rate": "Success rate (higher is better)",
    "cost_efficiency": "Cost efficiency: success per 1k tokens",
}


def describe_objective(objective: Objective, metric: str) -> str:
    """The scorer in words, as reports show it."""
    if objective.kind == "weighted":
        return " + ".join(
            f"{part.weight * 100:.0f}% {_describe(part, metric, objective.direction)}" for part in objective.components
        )
    if objective.kind == "python":
        return objective.description or f"Python: {objective.ref}"
    return _describe(objective, metric, objective.direction)


def _describe(part: Objective | Component, metric: str, direction: Direction) -> str:
    better = "higher" if direction is Direction.MAXIMIZE else "lower"
    name = part.metric or metric
    if part.kind == "mean":
        return f"Mean {name} ({better} is better)"
    if part.kind in OVER_LABELS:
        return f"{label_measure(part)} of {name} ({better} is better)"
    return _COMPONENT_WORDS[part.kind]


def label_measure(part: Objective | Component) -> str:
    """`Accuracy`, `Macro F1`, `Recall for bug`"""
    words = "F1" if part.kind == "f1" else part.kind
    if part.kind == "accuracy":
        return "Accuracy"
    if part.positive is not None:
        return f"{words[:1].upper()}{words[1:]} for {part.positive}"
    return f"{part.average.capitalize()} {words}"


def statistics_for_plugins(trial: TrialStatistics) -> Mapping[str, object]:
    """What a `python` objective is given."""
    return trial.model_dump(mode="json")
