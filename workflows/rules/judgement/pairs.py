"""Two trials over the same samples as arrays of gains: positive is better, whatever the direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.optimizer import Direction

Array = NDArray[np.float64]
Scores = Sequence[float | None] | Array
"""One per sample, None (or NaN) without an answer."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The samples that both trials answered."""

    reference: Array
    candidate: Array
    gains: Array
    """The candidate's gain on every sample."""
    shares: Array
    """How much every sample counts; they add up to 1."""
    missing: int = 0

    @property
    def n(self) -> int:
        return len(self.gains)

    @property
    def effect(self) -> float:
        return float(self.shares @ self.gains)

    @property
    def evenly_weighted(self) -> bool:
        return bool(np.all(self.shares == self.shares[0]))


def pair(
    reference: Scores,
    candidate: Scores,
    weights: Sequence[float] | None = None,
    direction: Direction = Direction.MAXIMIZE,
) -> Pairs:
    """Pair two trials sample by sample; what only one of them answered is left out and counted."""
    one = np.array([np.nan if value is None else value for value in reference], dtype=np.float64)
    other = np.array([np.nan if value is None else value for value in candidate], dtype=np.float64)
    every = np.ones(len(one)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(one) == len(other) == len(every):
        raise ValueError(f"{len(one)} and {len(other)} samples with {len(every)} weights cannot be paired")
    both = ~np.isnan(one) & ~np.isnan(other) & (every > 0)
    one, other, every = one[both], other[both], every[both]
    gains = other - one if direction is Direction.MAXIMIZE else one - other
    shares = every / every.sum() if len(every) else every
    return Pairs(one, other, gains, shares, missing=int(len(both) - both.sum()))
