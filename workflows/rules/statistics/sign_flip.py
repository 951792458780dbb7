"""Is there a gain at all? The paired permutation test: under "no difference" every sample's gain could as well be its loss.

Where gains lie on a grid (scores that are 0 or 1, averaged over replicates) the distribution over all sign flips is computed
exactly, however many samples there are; with one replicate that is McNemar's exact test. Otherwise it is enumerated when
small, and sampled with a fixed seed when not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workflows.rules.statistics.answer_deals import DRAWS, Steps, distribution, random_sums, shares, tails
from workflows.rules.statistics.distributions import binomial_at_least, binomial_at_most
from workflows.rules.statistics.gain_pairs import Array, Pairs

ENUMERATED = 16
"""Up to so many samples that differ, all flips are enumerated."""

STEPS_PER_UNIT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 18, 20, 21, 24, 30, 60, 100, 120)
"""Grids that are looked for; those of means over 1 to 10, 12, 15, 20, … replicates are among them, and where one side has up
to three answers and the other up to ten."""

SAME_STEP = 1e-6

MOST_STEPS = 1_000_000
"""Of one sample; a finer grid is none."""


class SignFlip(NamedTuple):
    """One-sided p-values of a gain and of a loss, and how they were found."""

    gain: float
    loss: float
    method: str


def sign_flip(pairs: Pairs, seed: int = 0) -> SignFlip:
    """The permutation test of the weighted mean gain."""
    parts = (pairs.shares * pairs.gains)[pairs.gains != 0]
    if not len(parts):
        return SignFlip(1.0, 1.0, "no sample differs")
    sizes = np.abs(pairs.gains[pairs.gains != 0])
    if pairs.evenly_weighted:
        steps = _on_grid(sizes)
        found = None if steps is None else _exact(steps, np.sign(pairs.gains[pairs.gains != 0]))
        if steps is not None and found is not None:
            same = bool(np.all(steps == steps[0]))
            return SignFlip(*found, "exact sign test (McNemar)" if same else "exact paired permutation test")
    if len(parts) <= ENUMERATED:
        return SignFlip(*_enumerated(parts), "exact paired permutation test")
    return SignFlip(*_sampled(parts, seed), f"paired permutation test, {DRAWS:,} flips")


def _on_grid(sizes: Array) -> Array | None:
    """The sizes as whole steps of the coarsest grid that holds them all."""
    for scaled in (sizes / sizes[0], sizes):
        for per_unit in STEPS_PER_UNIT:
            steps = scaled * per_unit
            whole = np.rint(steps)
            if whole.max() <= MOST_STEPS and np.all(np.abs(steps - whole) < SAME_STEP):
                return whole
    return None


def _exact(steps: Array, signs: Array) -> tuple[float, float] | None:
    """P(the positive steps add up to at least, at most, what was observed), every sign a coin; None where that takes long."""
    if np.all(steps == steps[0]):
        gained, differing = int((signs > 0).sum()), len(steps)
        return binomial_at_least(gained, differing, 0.5), binomial_at_most(gained, differing, 0.5)
    sizes, counts = np.unique(steps.astype(np.int64), return_counts=True)
    coin = np.array([0.5, 0.5])
    kinds = [Steps(np.array([0, size]), coin, int(times)) for size, times in zip(sizes, counts, strict=True)]
    chances = distribution(kinds)
    if chances is None:
        return None
    observed = int(steps[signs > 0].sum())
    return min(1.0, float(chances[observed:].sum())), min(1.0, float(chances[: observed + 1].sum()))


def _enumerated(parts: Array) -> tuple[float, float]:
    flipped = (np.arange(1 << len(parts))[:, None] >> np.arange(len(parts))) & 1
    signs = 1.0 - 2.0 * flipped.astype(np.float64)
    return tails(signs @ np.abs(parts), np.full(len(signs), 1 / len(signs)), float(parts.sum()))


def _sampled(parts: Array, seed: int) -> tuple[float, float]:
    drawn = random_sums([np.stack([parts, -parts], axis=1)], np.random.default_rng(seed))
    return shares(drawn, float(parts.sum()))
