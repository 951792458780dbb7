"""Constraints: what a trial's answers took or scored, with an interval, against a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workflows.model.spec.judgement import Constraint, ConstraintCheck
from workflows.rules.statistics.distributions import binomial_quantile, student_quantile
from workflows.rules.statistics.gain_pairs import Array, averaged, numbered
from workflows.rules.statistics.trial_answers import TrialAnswers

CONFIDENCE = 0.95


class MeasuredStatistic(NamedTuple):
    """A statistic with its interval, where one can be given."""

    value: float
    low: float | None
    high: float | None


def check_constraints(
    constraints: Sequence[Constraint], reference: TrialAnswers, candidate: TrialAnswers
) -> list[ConstraintCheck]:
    """Every constraint on the candidate's own answers; `of_baseline` multiplies the limit by the reference's value."""
    return [_check(constraint, reference, candidate) for constraint in constraints]


def _check(constraint: Constraint, reference: TrialAnswers, candidate: TrialAnswers) -> ConstraintCheck:
    limit = constraint.at_most if constraint.at_most is not None else constraint.at_least
    assert limit is not None
    if constraint.of_baseline:
        base = measured(constraint, reference)
        limit = limit * base.value if base else math.nan
    found = measured(constraint, candidate)
    if found is None or math.isnan(limit):
        return ConstraintCheck(constraint=constraint.words, value=None, limit=0.0 if math.isnan(limit) else limit, holds=False)
    below = found.value <= limit
    edge = found.high if below else found.low
    return ConstraintCheck(
        constraint=constraint.words,
        value=found.value,
        limit=limit,
        low=found.low,
        high=found.high,
        holds=below if constraint.at_most is not None else found.value >= limit,
        certain=edge is not None and (edge <= limit) == below,
    )


def measured(constraint: Constraint, trial: TrialAnswers) -> MeasuredStatistic | None:
    """The statistic over the trial's answers; None when no answer has the measure."""
    answers = trial.measures.get(constraint.measure, ())
    if not answers:
        return None
    values = np.sort(np.array([value for _, value in answers], dtype=np.float64))
    match constraint.statistic:
        case "total":
            return MeasuredStatistic(float(math.fsum(values)), None, None)
        case "max":
            return MeasuredStatistic(float(values[-1]), None, None)
        case "mean":
            return _mean(trial, constraint.measure)
        case percentile:
            return _quantile(values, int(percentile[1:]) / 100)


def _mean(trial: TrialAnswers, measure: str) -> MeasuredStatistic:
    """Samples are what varies: replicates of one are averaged first, and then those that count as one."""
    found = [(place, value) for place, value in enumerate(trial.mean_of(measure)) if value is not None]
    means = np.array([value for _, value in found], dtype=np.float64)
    if trial.clusters is not None:
        means = averaged(means, np.ones(len(means)), numbered([trial.clusters[place] for place, _ in found]))
    value = float(means.mean())
    if len(means) < 2:
        return MeasuredStatistic(value, None, None)
    reach = student_quantile((1 + CONFIDENCE) / 2, len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
    return MeasuredStatistic(value, value - reach, value + reach)


def _quantile(values: Array, share: float) -> MeasuredStatistic:
    """The percentile with the interval that order statistics give, whatever the distribution; open where it has no end."""
    n = len(values)
    value = float(np.quantile(values, share, method="inverted_cdf"))
    tail = (1 - CONFIDENCE) / 2
    below = binomial_quantile(tail, n, share)
    above = binomial_quantile(1 - tail, n, share) + 1
    return MeasuredStatistic(
        value, float(values[below - 1]) if below >= 1 else None, float(values[above - 1]) if above <= n else None
    )
