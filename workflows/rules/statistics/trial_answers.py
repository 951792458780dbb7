"""What judgement reads of a trial: per sample its mean score and its passes, per answer what it took."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.scoring.tally import Tally, asked_for


@dataclass(frozen=True, slots=True)
class TrialAnswers:
    """One trial, by the places of its samples in the suite."""

    means: list[float | None]
    """The objective's score of every sample, averaged over its replicates; None without an answer."""
    weights: list[float] | None = None
    singles: Sequence[Sequence[float]] | None = None
    """For every sample the objective's score of each of its answers; of a sample with one answer they may be left out."""
    clusters: Sequence[Hashable] | None = None
    """Which samples count as one; None where each is one by itself."""
    passes: list[tuple[int, int]] | None = None
    """For every sample: replicates passed, of replicates answered."""
    measures: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    """For every resource and score that is asked for: (place of the sample, value) of each answer."""

    def singles_of(self, measure: str) -> list[list[float]]:
        """Another measure, answer by answer of each sample."""
        values: list[list[float]] = [[] for _ in self.means]
        for place, value in self.measures.get(measure, ()):
            values[place].append(value)
        return values

    def mean_of(self, measure: str) -> list[float | None]:
        """Another measure, sample by sample."""
        return [sum(given) / len(given) if given else None for given in self.singles_of(measure)]

    def of(self, measure: str) -> TrialAnswers:
        """The same trial as if another measure were its objective."""
        singles = self.singles_of(measure)
        means = [sum(given) / len(given) if given else None for given in singles]
        return TrialAnswers(means, self.weights, singles, self.clusters)


def answers_of(measured: Iterable[MeasuredSample], suite: EvaluationSuite) -> TrialAnswers:
    """A trial's stored outcomes in the form that judgement reads."""
    return answers_in(Tally.of(measured, suite, measures=asked_for(suite.judgement)))


def answers_in(tally: Tally, samples: int | None = None) -> TrialAnswers:
    """The same of answers that were added up already, which with `samples` are all to the first samples."""
    return TrialAnswers(
        means=tally.means[:samples],
        weights=tally.weights[:samples],
        singles=tally.singles[:samples],
        clusters=tally.clusters[:samples] if tally.clusters else None,
        passes=tally.passes[:samples],
        measures=dict(tally.measures),
    )
