"""What judgement reads of a trial: per sample its mean score and its passes, per answer what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.scoring import sample_means

RESOURCES = ("cost", "tokens", "latency_ms", "ttft_ms")


@dataclass(frozen=True, slots=True)
class TrialAnswers:
    """One trial, by the places of its samples in the suite."""

    means: list[float | None]
    """The objective's score of every sample, averaged over its replicates; None without an answer."""
    weights: list[float] | None = None
    passes: list[tuple[int, int]] | None = None
    """For every sample: replicates passed, of replicates answered."""
    measures: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """For every resource and score: (place of the sample, value) of each answer."""

    def mean_of(self, measure: str) -> list[float | None]:
        """Another measure, sample by sample."""
        values: list[list[float]] = [[] for _ in self.means]
        for place, value in self.measures.get(measure, []):
            values[place].append(value)
        return [sum(given) / len(given) if given else None for given in values]


def answers_of(measured: Sequence[MeasuredSample], suite: EvaluationSuite) -> TrialAnswers:
    """A trial's stored outcomes in the form that judgement reads."""
    weights = [1.0] * suite.samples
    passes = [(0, 0)] * suite.samples
    measures: dict[str, list[tuple[int, float]]] = {name: [] for name in RESOURCES}
    for outcome in measured:
        place = outcome.position
        weights[place] = outcome.weight
        passed, answered = passes[place]
        passes[place] = passed + (outcome.passed and outcome.status == "answered"), answered + 1
        for name in RESOURCES:
            value = getattr(outcome, name)
            if value is not None:
                measures[name].append((place, float(value)))
        for name, score in _scores(outcome, suite).items():
            measures.setdefault(name, []).append((place, score))
    return TrialAnswers(sample_means(measured, suite), weights, passes, measures)


def _scores(outcome: MeasuredSample, suite: EvaluationSuite) -> dict[str, float]:
    """A failed answer has the worst score in everything that is scored."""
    if outcome.status == "answered":
        return outcome.scores
    return {scorer.score_name: suite.objective.worst_score for scorer in suite.scorers}
