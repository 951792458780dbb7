"""How sure a score is, from what its samples scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from scipy.special import ndtri, stdtrit

CONFIDENCE: Final = 0.95
SAME: Final = 1e-9
"""Means that differ by no more are the same number, summed in another order."""


def interval_of_score(
    score: float | None, sample_means: Sequence[float | None], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """The interval of a score that is the plain mean of its samples; None for every other score, such as an F1.

    Wilson's for samples that pass or fail, Student's t for the rest.
    """
    values = [value for value in sample_means if value is not None]
    if score is None or len(values) < 2 or not all(math.isfinite(value) for value in values):
        return None
    n = len(values)
    mean = math.fsum(values) / n
    if abs(mean - score) > SAME * max(1.0, abs(score)):
        return None
    if all(value in (0.0, 1.0) for value in values):
        return _wilson(mean, n, confidence)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    reach = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    return mean - reach, mean + reach


def _wilson(share: float, n: int, confidence: float) -> tuple[float, float]:
    z2 = float(ndtri((1 + confidence) / 2)) ** 2
    center = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * share * (1 - share) / n + z2 * z2 / (4 * n * n)) / (1 + z2 / n)
    # The last digit must not put the share outside of its own interval.
    return min(max(0.0, center - reach), share), max(min(1.0, center + reach), share)
