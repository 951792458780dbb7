"""Is there a gain at all? The paired permutation test: under "no difference" every sample's gain could as well be its loss.

Where gains lie on a grid (scores that are 0 or 1, averaged over replicates) the distribution over all sign flips is computed
exactly, however many samples there are; with one replicate that is McNemar's exact test. Otherwise it is enumerated when
small, and sampled with a fixed seed when not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workflows.rules.judgement.distributions import binomial_at_least, binomial_at_most
from workflows.rules.judgement.pairs import Array, Pairs

FLIPS = 20_000
"""Random flips where the exact distribution is out of reach; the p-value is then known to ±0.003 at 0.05."""

ENUMERATED = 16
"""Up to so many samples that differ, all flips are enumerated."""

STEPS_PER_UNIT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 60, 100, 120)
"""Grids that are looked for; those of means over 1 to 6, 8, 10, 12, 15, 20, … replicates are among them."""

SAME_STEP = 1e-6

LARGEST_TABLE = 100_000_000
"""Samples × steps of the exact distribution; beyond it, flips are sampled."""

CHUNK = 1 << 22
"""Signs that are drawn at once."""


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
        if steps is not None:
            same = bool(np.all(steps == steps[0]))
            method = "exact sign test (McNemar)" if same else "exact paired permutation test"
            return SignFlip(*_exact(steps, np.sign(pairs.gains[pairs.gains != 0])), method)
    if len(parts) <= ENUMERATED:
        return SignFlip(*_enumerated(parts), "exact paired permutation test")
    return SignFlip(*_sampled(parts, seed), f"paired permutation test, {FLIPS:,} flips")


def _on_grid(sizes: Array) -> Array | None:
    """The sizes as whole steps of the coarsest grid that holds them all."""
    for scaled in (sizes / sizes[0], sizes):
        for per_unit in STEPS_PER_UNIT:
            steps = scaled * per_unit
            whole = np.rint(steps)
            if np.all(np.abs(steps - whole) < SAME_STEP) and len(steps) * whole.sum() <= LARGEST_TABLE:
                return whole
    return None


def _exact(steps: Array, signs: Array) -> tuple[float, float]:
    """P(the positive steps add up to at least, at most, what was observed), every sign a coin."""
    if np.all(steps == steps[0]):
        gained, differing = int((signs > 0).sum()), len(steps)
        return binomial_at_least(gained, differing, 0.5), binomial_at_most(gained, differing, 0.5)
    sizes = np.sort(steps.astype(np.int64))
    observed = int(steps[signs > 0].sum())
    chances = np.ones(1)
    for size in sizes:
        longer = np.zeros(len(chances) + size)
        longer[: len(chances)] = chances
        longer[size:] += chances
        chances = longer / 2
    return min(1.0, float(chances[observed:].sum())), min(1.0, float(chances[: observed + 1].sum()))


def _enumerated(parts: Array) -> tuple[float, float]:
    flipped = (np.arange(1 << len(parts))[:, None] >> np.arange(len(parts))) & 1
    signs = 1.0 - 2.0 * flipped.astype(np.float64)
    return _shares(signs @ np.abs(parts), float(parts.sum()), extra=0)


def _sampled(parts: Array, seed: int) -> tuple[float, float]:
    """The observed signs are counted among the flips, so that the p-value is never 0 and the test keeps its rate."""
    random = np.random.default_rng(seed)
    rows = max(1, CHUNK // len(parts))
    sums = [
        random.choice(np.array([-1.0, 1.0]), size=(min(rows, FLIPS - done), len(parts))) @ parts
        for done in range(0, FLIPS, rows)
    ]
    return _shares(np.concatenate(sums), float(parts.sum()), extra=1)


def _shares(sums: Array, observed: float, extra: int) -> tuple[float, float]:
    near = 1e-9 * max(1.0, abs(observed))
    total = len(sums) + extra
    return float((sums >= observed - near).sum() + extra) / total, float((sums <= observed + near).sum() + extra) / total
