"""How large is the mean gain? A score test: what is in doubt is the hypothesis, so the variance is that of the hypothesis.

- Of all distributions of gains with the mean that is in doubt, the one counts that explains the observed gains best (by its
  empirical likelihood, and a loss of the whole range is possible though none was seen). Its variance is what the observed mean
  is measured by. With gains of -1, 0 and 1 that is Tango's test of paired proportions; losses that are large on few samples,
  which make Student's t wrong, have their weight; and gains that hardly vary prove nothing where losses are rare.
- The variance is never below that of the sample, nor below that of samples that either do not change or change by the whole
  range of the score: |μ| · (range - |μ|). Where no more than that was seen, the binomial test decides: with no difference at
  all on n samples the bound is Clopper and Pearson's, 1 - 0.05^(1/n) of the range; Student's is 0.
- Samples that weigh unequally count as fewer than they are: as 1 / Σ share².
- The test works as if there were one sample fewer, which matters for few samples only.

Intervals are the values that the test does not reject. The error rates are measured by `benchmarks/judgement.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv, stdtr, stdtrit

from workflows.rules.statistics.gain_pairs import Array, Pairs, weighted_sum

SAMPLES_HELD_BACK = 1
HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Moments:
    """What the test needs to know of the gains."""

    n: int
    mean: float
    variance: float
    """Of one sample; the mean's is this divided by n."""
    reach: float
    """The most that one sample may be expected to gain or lose."""
    bounded: bool = True
    """Whether no sample can gain or lose more."""
    gains: Array | None = field(default=None, compare=False)
    """Every gain that was observed, once. None: only the moments are known."""
    chances: Array | None = field(default=None, compare=False)
    """How much each of these counts; they add up to 1."""
    spread: float = 1.0
    """By how much unequal weights make the mean vary more: n · Σ share²."""

    @property
    def effective(self) -> float:
        """As many samples of equal weight would say as much."""
        return max(self.n / self.spread, 1.0)


class Bounds(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def moments(pairs: Pairs, score_range: float | None = None) -> Moments:
    """The weighted moments; a sample that counts double is one sample with double influence, not two."""
    parts = pairs.n * pairs.shares * (pairs.gains - pairs.effect)
    variance = weighted_sum(parts, parts) / (pairs.n - 1) if pairs.n > 1 else 0.0
    reach, bounded = (score_range, True) if score_range is not None else _reach(pairs)
    gains, places = np.unique(pairs.gains, return_inverse=True)
    chances: Array = np.bincount(places, weights=pairs.shares).astype(np.float64)
    spread = 1.0 if pairs.evenly_weighted else pairs.n * weighted_sum(pairs.shares, pairs.shares)
    return Moments(pairs.n, pairs.effect, variance, reach, bounded, gains, chances, spread)


def _reach(pairs: Pairs) -> tuple[float, bool]:
    """Scores between 0 and 1 can change by 1. Of others it is known only what was seen."""
    values = np.concatenate([pairs.reference, pairs.candidate])
    if values.min() >= 0 and values.max() <= 1:
        return 1.0, True
    largest = float(np.abs(pairs.gains).max())
    return largest or float(np.ptp(values)) or float(np.abs(values).max()), False


TINY = 1e-12
CLOSE = 1e-4
"""To how much of itself λ is found; the variance is never taken for smaller than it is."""
PRECISE = 1e-7
"""To how much of the range bounds are found."""


def p_above(found: Moments, hypothesis: float) -> float:
    """How likely a mean gain as high as the one found is, if the true one is `hypothesis` or less."""
    statistic = min(_statistic(found, hypothesis), _statistic(found, min(hypothesis, _hardest_loss(found))))
    return max(float(stdtr(_freedom(found), -statistic)), _as_few_losses(found, hypothesis))


def lower_bound(found: Moments, confidence: float) -> float:
    """The mean gain is at least this, with one-sided confidence; never below what scores can lose."""
    return min(_lowest(found, confidence), _lowest_by_losses(found, confidence))


def _lowest(found: Moments, confidence: float) -> float:
    critical = float(stdtrit(_freedom(found), confidence))
    hardest = _hardest_loss(found)
    inner = hardest if _statistic(found, hardest) < critical else found.mean
    outer = min(-found.reach, found.mean)
    if found.bounded and _statistic(found, outer) < critical:
        return outer
    while _statistic(found, outer) < critical:
        outer = 2 * outer - found.reach
    while inner - outer > PRECISE * found.reach:
        middle = (inner + outer) / 2
        inner, outer = (inner, middle) if _statistic(found, middle) >= critical else (middle, outer)
    return (inner + outer) / 2


def _as_few_losses(found: Moments, hypothesis: float) -> float:
    """The chance of as small a loss as the one found, where samples either keep their score or lose the whole range."""
    losses, share = _whole_losses(found), -hypothesis / found.reach
    if losses < 0 or not 0 < share < 1:
        return 0.0
    return float(betainc(max(found.effective - losses, TINY), losses + 1, 1 - share))


def _lowest_by_losses(found: Moments, confidence: float) -> float:
    """The bound by the same test."""
    losses = _whole_losses(found)
    if losses < 0 or not found.reach:
        return found.mean
    return -found.reach * float(betaincinv(losses + 1, max(found.effective - losses, TINY), confidence))


def _whole_losses(found: Moments) -> int:
    """As many samples that lost the whole range would have lost as much; negative after a gain."""
    return math.floor(-found.mean * found.effective / found.reach + TINY) if found.reach else -1


def interval(found: Moments, confidence: float) -> Bounds:
    """The two-sided interval of the mean gain."""
    high = -lower_bound(_turned(found), (1 + confidence) / 2)
    return Bounds(lower_bound(found, (1 + confidence) / 2), high)


def _turned(found: Moments) -> Moments:
    gains, chances = found.gains, found.chances
    return replace(
        found,
        mean=-found.mean,
        gains=None if gains is None else -gains[::-1],
        chances=None if chances is None else chances[::-1],
    )


def _freedom(found: Moments) -> float:
    return max(found.effective - 1, 0.5)


def _statistic(found: Moments, hypothesis: float) -> float:
    """How many standard errors the mean lies above the hypothesis."""
    distance = found.mean - hypothesis
    variance = max(found.variance, found.spread * max(least_variance(hypothesis, found.reach), _explained(found, hypothesis)))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    held_back = max(found.effective - SAMPLES_HELD_BACK, 0.5) / found.effective
    return distance / math.sqrt(variance / found.n) * held_back


def _explained(found: Moments, hypothesis: float) -> float:
    """The variance of the distribution with this mean that explains the gains best; it may have losses of the whole range.

    Its chances are those observed, divided by 1 + λ · (gain - mean), and its variance is (observed mean - mean) / λ. Where that
    leaves some of the chance, the rest is on a loss of the whole range, and λ is as large as it can be.
    """
    distance, room = found.mean - hypothesis, found.reach + hypothesis
    if found.gains is None or found.chances is None or distance <= 0 or room <= 0:
        return 0.0
    away = found.gains - hypothesis
    low, high = 0.0, 1 / room
    lowest = float(away[0]) * high
    if lowest > -1 + TINY and float(found.chances @ (away / (1 + high * away))) >= 0:
        return distance * room
    high = min(high, -1 / float(away[0])) if away[0] < 0 else high
    for _ in range(HALVINGS):
        tilt = (low + high) / 2
        if float(found.chances @ (away / (1 + tilt * away))) > 0:
            low = tilt
        else:
            high = tilt
        if high - low <= CLOSE * high:
            break
    return distance / (low or high)


def _hardest_loss(found: Moments) -> float:
    """After a gain, the mean loss that is hardest to exclude: larger ones are further away, smaller ones vary less."""
    gain = max(found.mean, 0.0)
    return -gain * found.reach / (found.reach + 2 * gain)


def least_variance(mean: float, reach: float) -> float:
    """Of gains with this mean, when every sample either keeps its score or changes by the whole range."""
    away = min(abs(mean), reach / 2)
    return away * (reach - away)
