"""Two groups that share nothing: Mann and Whitney's test, exact with ties where feasible, and the difference of means."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from workflows.rules.statistics.distributions import student_quantile
from workflows.rules.statistics.gain_pairs import Array
from workflows.rules.statistics.mean_test import Moments

LARGEST_EXACT = 80
"""Up to so many values in all, the distribution of the rank sum is computed exactly, ties included."""


MOST_PAIRS = 10_000
"""Of different values; beyond it the groups are large, and what is known of the mean depends on their variance alone."""


class Ranks(NamedTuple):
    """One-sided p-values of a gain and of a loss."""

    gain: float
    loss: float
    method: str


class Means(NamedTuple):
    """The difference of the means."""

    effect: float
    low: float
    high: float


def mann_whitney(reference: Array, candidate: Array) -> Ranks:
    """Whether the candidate's values tend to be higher."""
    if len(reference) + len(candidate) <= LARGEST_EXACT:
        return Ranks(*_exact(reference, candidate), "exact Mann-Whitney test")
    from scipy.stats import mannwhitneyu  # takes long to import

    gain = float(mannwhitneyu(candidate, reference, alternative="greater", method="asymptotic").pvalue)
    loss = float(mannwhitneyu(candidate, reference, alternative="less", method="asymptotic").pvalue)
    return Ranks(_certain(gain), _certain(loss), "Mann-Whitney test, tie-corrected")


def _certain(p: float) -> float:
    """All values equal: the test has nothing to divide by, and nothing to say."""
    return 1.0 if math.isnan(p) else p


def _exact(reference: Array, candidate: Array) -> tuple[float, float]:
    """Of all ways to choose the candidate's places among the ranks, the share with a sum at least, at most, the observed."""
    _, places, counts = np.unique(np.concatenate([reference, candidate]), return_inverse=True, return_counts=True)
    doubled = (2 * np.cumsum(counts) - counts + 1)[places]  # twice the mean rank among those that are equal
    observed = int(doubled[len(reference) :].sum())
    ways = np.zeros((len(candidate) + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    sums = ways[-1] / ways[-1].sum()
    return min(1.0, float(sums[observed:].sum())), min(1.0, float(sums[: observed + 1].sum()))


def welch(reference: Array, candidate: Array, confidence: float) -> Means:
    """The difference of the means with Welch's interval."""
    effect = float(candidate.mean() - reference.mean())
    parts = [group.var(ddof=1) / len(group) for group in (reference, candidate)]
    error = math.sqrt(sum(parts))
    if error == 0:
        freedom = float(min(len(reference), len(candidate)) - 1)
    else:
        freedom = sum(parts) ** 2 / sum(
            part**2 / (len(group) - 1) for part, group in zip(parts, (reference, candidate), strict=True)
        )
    reach = student_quantile((1 + confidence) / 2, freedom) * error
    return Means(effect, effect - reach, effect + reach)


def unpaired_moments(reference: Array, candidate: Array, score_range: float | None = None) -> Moments:
    """The difference of the means for the test of a mean gain, as if each of one group were paired with each of the other."""
    n = round(2 / (1 / len(reference) + 1 / len(candidate)))
    variance = n * sum(float(group.var(ddof=1)) / len(group) for group in (reference, candidate))
    values = np.concatenate([reference, candidate])
    reach, bounded = score_range, True
    if reach is None:
        within = values.min() >= 0 and values.max() <= 1
        reach, bounded = (1.0, True) if within else (float(np.ptp(values)) or float(np.abs(values).max()), False)
    gains: Array | None = None
    chances: Array | None = None
    levels = [np.unique(group, return_counts=True) for group in (reference, candidate)]
    if len(levels[0][0]) * len(levels[1][0]) <= MOST_PAIRS:
        every = np.subtract.outer(levels[1][0], levels[0][0]).ravel()
        weights = np.multiply.outer(levels[1][1], levels[0][1]).ravel() / (len(reference) * len(candidate))
        gains, places = np.unique(every, return_inverse=True)
        chances = np.bincount(places, weights=weights).astype(np.float64)
    return Moments(n, float(candidate.mean() - reference.mean()), variance, reach, bounded, gains, chances)
