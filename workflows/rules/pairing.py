"""Two trials over the same samples: how much they differ, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from workflows.model.run import Interval

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class PairedMeans:
    """One sample in two trials."""

    weight: float
    one: float
    other: float


def paired(
    one: Sequence[float | None], other: Sequence[float | None], weights: Sequence[float] | None = None
) -> list[PairedMeans]:
    """The samples that both trials answered."""
    every = weights or [1.0] * len(one)
    return [
        PairedMeans(weight, first, second)
        for weight, first, second in zip(every, one, other, strict=True)
        if first is not None and second is not None
    ]


def paired_interval(pairs: Sequence[PairedMeans], confidence: float = CONFIDENCE) -> Interval:
    """The weighted mean of the differences, with Student's t interval.

    A single pair says nothing of how much pairs differ: its interval is the point itself, with confidence 0.
    """
    n = len(pairs)
    total = math.fsum(pair.weight for pair in pairs)
    mean = math.fsum(pair.weight * (pair.other - pair.one) for pair in pairs) / total
    if n < 2:
        return Interval(estimate=mean, low=mean, high=mean, confidence=0.0, n=n)
    squares = math.fsum((pair.weight * (pair.other - pair.one - mean)) ** 2 for pair in pairs)
    error = math.sqrt(squares * n / (n - 1)) / total
    reach = t_quantile((1 + confidence) / 2, n - 1) * error
    return Interval(estimate=mean, low=mean - reach, high=mean + reach, confidence=confidence, n=n)


def t_quantile(probability: float, freedom: int) -> float:
    """Student's t: exact for 1 and 2 degrees of freedom, by Cornish and Fisher's expansion above (error < 0.5 %)."""
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))
