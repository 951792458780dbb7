"""What judgement reads of a trial: per sample its mean score and its passes, per answer what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.tally import Tally, asked_for


@dataclass(frozen=True, slots=True)
class TrialAnswers:
    """One trial, by the places of its samples in the suite."""

    means: list[float | None]
    """The objective's score of every sample, averaged over its replicates; None without an answer."""
    weights: list[float] | None = None
    passes: list[tuple[int, int]] | None = None
    """For every sample: replicates passed, of replicates answered."""
    measures: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    """For every resource and score that is asked for: (place of the sample, value) of each answer."""

    def mean_of(self, measure: str) -> list[float | None]:
        """Another measure, sample by sample."""
        values: list[list[float]] = [[] for _ in self.means]
        for place, value in self.measures.get(measure, ()):
            values[place].append(value)
        return [sum(given) / len(given) if given else None for given in values]


def answers_of(measured: Iterable[MeasuredSample], suite: EvaluationSuite) -> TrialAnswers:
    """A trial's stored outcomes in the form that judgement reads."""
    return answers_in(Tally.of(measured, suite, measures=asked_for(suite.judgement)))


def answers_in(tally: Tally, samples: int | None = None) -> TrialAnswers:
    """The same of answers that were added up already, which with `samples` are all to the first samples."""
    return TrialAnswers(tally.means[:samples], tally.weights[:samples], tally.passes[:samples], dict(tally.measures))
