"""A trial's answers, added up in one pass: what is kept grows with the samples, not with the answers to them."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from workflows.model.run.amounts import Amount
from workflows.model.spec.judgement import JudgementSpec
from workflows.model.spec.objective import Component, Objective
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.scoring.classification import Classification, classify
from workflows.rules.scoring.error_counts import summed
from workflows.rules.scoring.objective_score import (
    MEANS_OVER_SAMPLES,
    MetricStatistics,
    TrialStatistics,
    plain_mean,
    weighted_mean,
)

PASSES: Final = 1
"""At least half of a sample's answers pass."""
HAS_FAILED: Final = 2
"""One of a sample's answers failed: the target raised, refused, took too long or gave unusable output."""

RESOURCES = ("cost", "tokens", "latency_ms", "ttft_ms")

Label = tuple[str | None, str]
"""The one given, None by a failed answer, and the one expected."""


class Values(Sequence[tuple[int, float]]):
    """(place of the sample, value) of each answer, packed."""

    def __init__(self) -> None:
        self._places, self._values = array("l"), array("d")

    def append(self, place: int, value: float) -> None:
        self._places.append(place)
        self._values.append(value)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> tuple[int, float]:  # type: ignore[override]
        return self._places[index], self._values[index]


@dataclass(slots=True)
class _Score:
    """One score, sample by sample in the order of the tally."""

    means: array[float] = field(default_factory=lambda: array("d"))
    passed: array[float] = field(default_factory=lambda: array("d"))
    """The share of the sample's answers that passed."""
    successes: int = 0


class Tally:
    """Add answers sample by sample, the replicates of one together; read it when all are in."""

    def __init__(
        self,
        suite: EvaluationSuite,
        *,
        places: range | None = None,
        measures: Collection[str] = (),
        paid_by: str | None = None,
    ) -> None:
        """Only answers to samples in `places` count. `measures` are resources and scores whose single values will be asked for,
        `paid_by` is the trial whose spending will be."""
        self.suite = suite
        self._worst = suite.objective.worst_score
        self._paid_by = paid_by
        self._counted = places if places is not None else range(suite.samples)
        self._expected = list(dict.fromkeys([*(scorer.score_name for scorer in suite.scorers), suite.metric]))
        self._labelled = {scorer.score_name: rules for scorer in suite.scorers if (rules := scorer.label_rules) is not None}
        self._labels: dict[str, Counter[tuple[float, Label]]] = {name: Counter() for name in self._labelled}
        self._scores = {name: _Score() for name in self._expected}
        self._given: set[str] = set()
        self._weights = array("d")
        self._costs, self._paid_costs, self._latencies, self._first_tokens = array("d"), array("d"), array("d"), array("d")
        self._timed, self._timed_first = 0, 0
        self._group: list[MeasuredSample] = []
        self._failures: Counter[str] = Counter()
        self.answers = 0
        self.failed_answers = 0
        """Those that are the candidate's failures."""
        self.unscored = 0
        """Answers that a scorer failed on: they were paid for, and count for nothing."""
        self.passed = 0
        self.tokens = 0
        self.scoring_tokens = 0
        self._paid_samples, self._paid_tokens = 0, 0
        self._paid_cached_tokens = 0
        self.reused = 0
        self._means: list[float | None] = [None] * suite.samples
        self.weights = [1.0] * suite.samples
        self.passes = [(0, 0)] * suite.samples
        """For every sample: replicates passed, of replicates answered."""
        self._states: list[int | None] = [None] * suite.samples
        self._singles: list[Sequence[float]] = [()] * suite.samples
        self.measures = {name: Values() for name in measures}

    @classmethod
    def of(cls, measured: Iterable[MeasuredSample], suite: EvaluationSuite, *, measures: Collection[str] = ()) -> Tally:
        """Of answers in any order."""
        tally = cls(suite, measures=measures)
        tally.add(sorted(measured, key=lambda outcome: outcome.position))
        return tally

    def add(self, measured: Iterable[MeasuredSample]) -> None:
        """Further answers, in the order of their samples."""
        for outcome in measured:
            if outcome.position not in self._counted:
                continue
            if outcome.status == "unscored":
                self.unscored += 1
                self._failures[outcome.error_class or "failed"] += 1
                self._add_paid([outcome])
                continue
            if self._group and self._group[0].position != outcome.position:
                self._close()
            self._group.append(outcome)

    @property
    def means(self) -> list[float | None]:
        """What every sample adds to the objective, averaged over its replicates; None where no answer is known.

        A mean, a success rate and what is weighted of them is the mean of this over the samples. Other objectives (F1, cost
        efficiency, a user's own) are no mean over samples; what is compared sample by sample then is the score.
        """
        self._close()
        return self._means

    @property
    def states(self) -> list[int | None]:
        """What became of every sample, as a sum of PASSES and HAS_FAILED; None where no answer is known."""
        self._close()
        return self._states

    @property
    def clusters(self) -> list[int] | None:
        """For every sample the place of the first one that it counts as one with; None where each counts by itself."""
        return self.suite.clusters

    @property
    def singles(self) -> list[Sequence[float]]:
        """For every sample that was answered more than once, what each answer adds to the objective."""
        self._close()
        return self._singles

    @property
    def paid(self) -> Amount:
        """What the trial paid for: answers with their scores, and scores of answers that others had paid for."""
        self._close()
        return Amount(samples=self._paid_samples, tokens=self._paid_tokens, cost=math.fsum(self._paid_costs))

    @property
    def paid_cached_tokens(self) -> int:
        """Of the tokens that the trial paid for, those that came from a provider's cache."""
        self._close()
        return self._paid_cached_tokens

    def statistics(self, expected_pairs: int, missing: Mapping[str, int] | None = None) -> TrialStatistics:
        """Samples weigh as the dataset says, replicates of a sample alike. `missing` are the pairs without an answer, by the
        class of the error."""
        self._close()
        return TrialStatistics(
            samples=len(self._weights),
            outcomes=self.answers,
            passed=self.passed,
            failed=self.answers - self.passed,
            coverage=self.answers / expected_pairs if expected_pairs else 0.0,
            unscored=self.unscored,
            total_tokens=self.tokens,
            scoring_tokens=self.scoring_tokens,
            total_cost=math.fsum(self._costs),
            avg_latency_ms=math.fsum(self._latencies) / self._timed if self._timed else None,
            avg_ttft_ms=math.fsum(self._first_tokens) / self._timed_first if self._timed_first else None,
            errors=summed([self._failures, missing or {}]),
            metrics={name: self._metric(name) for name in self._shown_scores()},
            classification={name: self._classification(name) for name in self._labelled},
        )

    # -- one sample -----------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Book the sample whose answers are all in."""
        group, self._group = self._group, []
        if not group:
            return
        place = group[0].position
        self._add_amounts(group)
        self._add_scores(group)
        self._weights.append(group[0].weight)
        self.weights[place] = group[0].weight
        self.passes[place] = (sum(1 for o in group if o.passed and o.status == "answered"), len(group))
        self._states[place] = _state(self.passes[place][0], group)
        self._means[place] = self._sample_mean(group)
        if len(group) > 1:
            self._singles[place] = array("d", [self._sample_mean([outcome]) for outcome in group])
        for name, values in self.measures.items():
            for outcome in group:
                value = self._measure(name, outcome)
                if value is not None:
                    values.append(place, value)

    def _add_amounts(self, group: Sequence[MeasuredSample]) -> None:
        self.answers += len(group)
        self.tokens += sum(outcome.tokens for outcome in group)
        self.scoring_tokens += sum(outcome.scoring_tokens for outcome in group)
        self._costs.append(math.fsum(outcome.cost for outcome in group))
        self._add_paid(group)
        latencies = [outcome.latency_ms for outcome in group if outcome.latency_ms is not None]
        self._latencies.append(math.fsum(latencies))
        self._timed += len(latencies)
        first_tokens = [outcome.ttft_ms for outcome in group if outcome.ttft_ms is not None]
        self._first_tokens.append(math.fsum(first_tokens))
        self._timed_first += len(first_tokens)
        for outcome in group:
            if outcome.status == "failed":
                self.failed_answers += 1
                self._failures[outcome.error_class or "failed"] += 1

    def _add_paid(self, group: Sequence[MeasuredSample]) -> None:
        self.reused += sum(1 for outcome in group if not outcome.paid)
        mine = [outcome for outcome in group if outcome.paid and outcome.trial_id in (None, self._paid_by)]
        scored = [outcome for outcome in group if self._paid_by is not None and outcome.scored_by == self._paid_by]
        self._paid_samples += len(mine)
        self._paid_tokens += sum(outcome.tokens for outcome in mine) + sum(outcome.scoring_tokens for outcome in scored)
        self._paid_cached_tokens += sum(o.cached_tokens for o in mine) + sum(o.scoring_cached_tokens for o in scored)
        self._paid_costs.append(math.fsum([*(o.cost for o in mine), *(o.scoring_cost for o in scored)]))

    def _add_scores(self, group: Sequence[MeasuredSample]) -> None:
        self._given.update(*(outcome.scores for outcome in group))
        for name in sorted({key for outcome in group for key in (*outcome.scores, *outcome.per_score_passed)}):
            if name not in self._scores:  # samples before had no such score, which counts as the worst one
                before = len(self._weights)
                self._scores[name] = _Score(array("d", [self._worst]) * before, array("d", [0.0]) * before)
        for name, score in self._scores.items():
            passed = sum(1 for outcome in group if self._passed(name, outcome))
            score.means.append(self._mean_score(name, group))
            score.passed.append(passed / len(group))
            score.successes += passed
        self.passed += sum(1 for outcome in group if self._passed(self.suite.metric, outcome))
        for name, labels in self._labels.items():
            for outcome in group:
                if name in outcome.labels:
                    labels[group[0].weight / len(group), outcome.labels[name]] += 1

    def _sample_mean(self, group: Sequence[MeasuredSample]) -> float:
        parts = parts_of(self.suite.objective)
        return weighted_mean([(_weight(part), self._sample_part(part, group)) for part in parts])

    def _sample_part(self, part: Objective | Component, group: Sequence[MeasuredSample]) -> float:
        name = (part.metric if part.kind in MEANS_OVER_SAMPLES else None) or self.suite.metric
        if part.kind == "success_rate":
            return sum(1 for outcome in group if self._passed(name, outcome)) / len(group)
        return self._mean_score(name, group)

    def _mean_score(self, name: str, group: Sequence[MeasuredSample]) -> float:
        worst = self._worst
        return plain_mean([worst if o.status == "failed" else o.scores.get(name, worst) for o in group])

    def _passed(self, name: str, outcome: MeasuredSample) -> bool:
        if outcome.status == "failed":
            return False
        return outcome.per_score_passed.get(name, outcome.passed if name == self.suite.metric else False)

    def _measure(self, name: str, outcome: MeasuredSample) -> float | None:
        """A failed answer has the worst score in everything that is scored."""
        if name in RESOURCES:
            value: float | None = getattr(outcome, name)
            return None if value is None else float(value)
        if outcome.status == "answered":
            return outcome.scores.get(name)
        return self._worst if any(name == scorer.score_name for scorer in self.suite.scorers) else None

    # -- all samples ----------------------------------------------------------------------------------------------------------

    def _shown_scores(self) -> list[str]:
        """The scores that some answer has. A score that none has is no 0 but a mistake; only failed answers say nothing."""
        answered = self.answers > self.failed_answers
        expected = [name for name in self._expected if name in self._given or not answered]
        return [*expected, *sorted(self._given.difference(self._expected))]

    def _metric(self, name: str) -> MetricStatistics:
        score = self._scores[name]
        if not self._weights:
            return MetricStatistics(mean=self._worst, success_rate=0.0, successes=0)
        return MetricStatistics(
            mean=weighted_mean(list(zip(self._weights, score.means, strict=True))),
            success_rate=weighted_mean(list(zip(self._weights, score.passed, strict=True))),
            successes=score.successes,
        )

    def _classification(self, name: str) -> Classification:
        rules = self._labelled[name]
        answers = ((weight * count, *label) for (weight, label), count in self._labels[name].items())
        return classify(answers, rules.labels, ignore_case=rules.ignore_case)


def asked_for(judgement: JudgementSpec) -> list[str]:
    """The resources and scores whose single values a verdict depends on."""
    constrained = [constraint.measure for constraint in judgement.constraints]
    return list(dict.fromkeys([*constrained, *(objective.measure for objective in judgement.objectives)]))


def parts_of(objective: Objective) -> Sequence[Objective | Component]:
    """What a sample's share in the objective is made of."""
    if all(part.kind in MEANS_OVER_SAMPLES for part in objective.components):
        return objective.components or [objective]
    return [objective]


def _state(passed: int, group: Sequence[MeasuredSample]) -> int:
    failed = any(outcome.status == "failed" for outcome in group)
    return (PASSES if 2 * passed >= len(group) else 0) + (HAS_FAILED if failed else 0)


def _weight(part: Objective | Component) -> float:
    return part.weight if isinstance(part, Component) else 1.0


def statistics(
    measured: Iterable[MeasuredSample], suite: EvaluationSuite, expected_pairs: int, missing: Mapping[str, int] | None = None
) -> TrialStatistics:
    """The statistics of a trial's answers, in any order."""
    return Tally.of(measured, suite).statistics(expected_pairs, missing)


def sample_means(measured: Iterable[MeasuredSample], suite: EvaluationSuite) -> list[float | None]:
    """What every sample adds to the objective: see `Tally.means`."""
    return Tally.of(measured, suite).means
