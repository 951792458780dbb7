"""How large is the mean gain? A one-sample t-test that stays honest where Student's is not: skewed gains, and gains that
hardly vary.

Skewness (damage that is large on few samples) is corrected by Hall's transformation. A variance near zero proves nothing
where losses are rare, so under the hypothesis "the mean gain is μ" the variance is at least that of samples that either do
not change or change by the whole range of the score: |μ| · (range - |μ|). With no difference at all on n samples this makes the
bound about z²/(n + z²) of the range, as Wilson's interval does. Intervals are the values that the test does not reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from workflows.rules.judgement.pairs import Pairs


@dataclass(frozen=True, slots=True)
class Moments:
    """What the test needs to know of the gains."""

    n: int
    mean: float
    variance: float
    """Of one sample; the mean's is this divided by n."""
    skewness: float
    reach: float
    """The range of the score: the most that one sample can gain or lose."""


class Bounds(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def moments(pairs: Pairs, score_range: float | None = None) -> Moments:
    """The weighted moments; a sample that counts double is one sample with double influence, not two."""
    parts = pairs.n * pairs.shares * (pairs.gains - pairs.effect)
    variance = float((parts @ parts) / (pairs.n - 1)) if pairs.n > 1 else 0.0
    skewness = float(np.mean(parts**3) / variance**1.5) if variance > 1e-18 else 0.0
    return Moments(pairs.n, pairs.effect, variance, skewness, score_range or _reach(pairs))


def _reach(pairs: Pairs) -> float:
    values = np.concatenate([pairs.reference, pairs.candidate])
    if values.min() >= 0 and values.max() <= 1:
        return 1.0
    return float(values.max() - values.min()) or max(1.0, float(np.abs(values).max()))


def p_above(found: Moments, hypothesis: float) -> float:
    """How likely a mean gain as high as the one found is, if the true one is `hypothesis` or less."""
    return float(student.sf(_statistic(found, hypothesis), found.n - 1))


def p_below(found: Moments, hypothesis: float) -> float:
    """How likely a mean gain as low as the one found is, if the true one is `hypothesis` or more."""
    return float(student.cdf(_statistic(found, hypothesis), found.n - 1))


def _statistic(found: Moments, hypothesis: float) -> float:
    distance = found.mean - hypothesis
    away = min(abs(hypothesis), found.reach / 2)
    variance = max(found.variance, away * (found.reach - away))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    skewness = found.skewness * (found.variance / variance) ** 1.5
    t = distance / math.sqrt(variance)
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * found.n)
    return float(math.sqrt(found.n) * hall)


def lower_bound(found: Moments, confidence: float) -> float:
    """The mean gain is at least this, with one-sided confidence."""
    return _edge(found, lambda value: p_above(found, value) <= 1 - confidence, -1)


def interval(found: Moments, confidence: float) -> Bounds:
    """The two-sided interval of the mean gain."""
    tail = (1 - confidence) / 2
    return Bounds(
        _edge(found, lambda value: p_above(found, value) <= tail, -1),
        _edge(found, lambda value: p_below(found, value) <= tail, 1),
    )


def _edge(found: Moments, rejected: Callable[[float], bool], side: Literal[-1, 1]) -> float:
    """Where rejection begins, going out from the mean found; never beyond what a score can gain or lose."""
    inner, outer = found.mean, side * max(found.reach, side * found.mean)
    if not rejected(outer):
        return outer
    for _ in range(60):
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if rejected(middle) else (middle, outer)
    return (inner + outer) / 2
