"""How large is the mean gain? A one-sample t-test that stays honest where Student's is not: skewed gains, gains that hardly
vary, and few samples.

- Skewness (damage that is large on few samples) is corrected by Hall's transformation, where that makes the test more careful.
- A variance near zero proves nothing where losses are rare. So under the hypothesis "the mean gain is μ" the variance is at
  least that of samples that either do not change or change by the whole range of the score: |μ| · (range - |μ|). With no
  difference at all on n samples the bound is then about z²/(n + z²) of the range, as in Wilson's interval; Student's is 0.
- The test works as if there were three samples fewer, which matters for few samples only.

Intervals are the values that the test does not reject. `tests/judgement` and `benchmarks/judgement.py` measure the error rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from workflows.rules.judgement.pairs import Pairs

SAMPLES_HELD_BACK = 3
HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Moments:
    """What the test needs to know of the gains."""

    n: int
    mean: float
    variance: float
    """Of one sample; the mean's is this divided by n."""
    skewness: float
    reach: float
    """The most that one sample may be expected to gain or lose."""
    bounded: bool = True
    """Whether no sample can gain or lose more."""


class Bounds(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def moments(pairs: Pairs, score_range: float | None = None) -> Moments:
    """The weighted moments; a sample that counts double is one sample with double influence, not two."""
    parts = pairs.n * pairs.shares * (pairs.gains - pairs.effect)
    variance = float(parts @ parts) / (pairs.n - 1) if pairs.n > 1 else 0.0
    skewness = float(np.mean(parts**3)) / variance**1.5 if variance > 1e-18 else 0.0
    reach, bounded = (score_range, True) if score_range is not None else _reach(pairs)
    return Moments(pairs.n, pairs.effect, variance, skewness, reach, bounded)


def _reach(pairs: Pairs) -> tuple[float, bool]:
    """Scores between 0 and 1 can change by 1. Of others it is known only what was seen."""
    values = np.concatenate([pairs.reference, pairs.candidate])
    if values.min() >= 0 and values.max() <= 1:
        return 1.0, True
    largest = float(np.abs(pairs.gains).max())
    return largest or float(np.ptp(values)) or float(np.abs(values).max()), False


def p_above(found: Moments, hypothesis: float) -> float:
    """How likely a mean gain as high as the one found is, if the true one is `hypothesis` or less."""
    statistic = min(_statistic(found, hypothesis), _statistic(found, min(hypothesis, _hardest_loss(found))))
    return float(stdtr(found.n - 1, -statistic))


def lower_bound(found: Moments, confidence: float) -> float:
    """The mean gain is at least this, with one-sided confidence; never below what scores can lose."""
    critical = float(stdtrit(found.n - 1, confidence))
    hardest = _hardest_loss(found)
    inner = hardest if _statistic(found, hardest) < critical else found.mean
    outer = min(-found.reach, found.mean)
    if found.bounded and _statistic(found, outer) < critical:
        return outer
    while _statistic(found, outer) < critical:
        outer = 2 * outer - found.reach
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if _statistic(found, middle) >= critical else (middle, outer)
    return (inner + outer) / 2


def interval(found: Moments, confidence: float) -> Bounds:
    """The two-sided interval of the mean gain."""
    high = -lower_bound(_turned(found), (1 + confidence) / 2)
    return Bounds(lower_bound(found, (1 + confidence) / 2), high)


def _turned(found: Moments) -> Moments:
    return replace(found, mean=-found.mean, skewness=-found.skewness)


def _statistic(found: Moments, hypothesis: float) -> float:
    """How many standard errors the mean lies above the hypothesis."""
    distance = found.mean - hypothesis
    variance = max(found.variance, least_variance(hypothesis, found.reach))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    skewness = min(0.0, found.skewness * (found.variance / variance) ** 1.5)
    samples = max(found.n - SAMPLES_HELD_BACK, 0.5)
    t = distance / math.sqrt(variance) * samples / found.n
    hall = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / (6 * found.n)
    return float(math.sqrt(found.n) * hall)


def _hardest_loss(found: Moments) -> float:
    """After a gain, the mean loss that is hardest to exclude: larger ones are further away, smaller ones vary less."""
    gain = max(found.mean, 0.0)
    return -gain * found.reach / (found.reach + 2 * gain)


def least_variance(mean: float, reach: float) -> float:
    """Of gains with this mean, when every sample either keeps its score or changes by the whole range."""
    away = min(abs(mean), reach / 2)
    return away * (reach - away)
