"""Two trials over the same samples as arrays of gains: positive is better, whatever the direction."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratchet.optimizer import Direction

Array = NDArray[np.float64]
Scores = Sequence[float | None] | Array
"""One per sample, None (or NaN) without an answer."""
Singles = Sequence[Sequence[float]]
"""For every sample the scores of its answers, one by one; of a sample with one answer they may be left out."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What both trials answered to one sample, or to one cluster of them; higher is better."""

    reference: Array
    candidate: Array

    @property
    def unequal(self) -> bool:
        return len(self.reference) != len(self.candidate)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The samples that both trials answered; a cluster of samples is one."""

    reference: Array
    candidate: Array
    gains: Array
    """The candidate's gain on every sample."""
    shares: Array
    """How much every sample counts; they add up to 1."""
    missing: int = 0
    units: tuple[Unit, ...] | None = None
    """The single answers; None where both trials answered every sample equally often, so that nothing depends on them."""
    merged_from: int = 0
    """How many samples these are, where some of them count as one; else 0."""

    @property
    def n(self) -> int:
        return len(self.gains)

    @property
    def effect(self) -> float:
        return weighted_sum(self.shares, self.gains)

    @property
    def evenly_weighted(self) -> bool:
        return bool(np.all(self.shares == self.shares[0]))


def pair(
    reference: Scores,
    candidate: Scores,
    weights: Sequence[float] | None = None,
    direction: Direction = Direction.MAXIMIZE,
    *,
    singles: tuple[Singles, Singles] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Pairs:
    """Pair two trials sample by sample; what only one of them answered is left out and counted.

    Samples of one cluster (copies of one item, or what the user groups) say the same thing several times: they count once, with
    their mean. `singles` are the scores of single answers of both trials, in the order of their replicates.
    """
    one = np.array([np.nan if value is None else value for value in reference], dtype=np.float64)
    other = np.array([np.nan if value is None else value for value in candidate], dtype=np.float64)
    every = np.ones(len(one)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(one) == len(other) == len(every):
        raise ValueError(f"{len(one)} and {len(other)} samples with {len(every)} weights cannot be paired")
    both = ~np.isnan(one) & ~np.isnan(other) & (every > 0)
    places = np.flatnonzero(both)
    units = None if singles is None else _units(singles, (one, other), places, direction)
    one, other, every = one[both], other[both], every[both]
    merged_from = 0
    if clusters is not None:
        which = numbered([clusters[place] for place in places.tolist()])
        if len(which) and which.max() + 1 < len(which):
            units = None if units is None else _together(units, every, which)
            merged_from = len(which)
            one, other, every = averaged(one, every, which), averaged(other, every, which), _mean_weights(every, which)
    gains = other - one if direction is Direction.MAXIMIZE else one - other
    shares = every / every.sum() if len(every) else every
    if units is not None and not any(unit.unequal for unit in units):
        units = None
    missing = int(len(both) - both.sum())
    return Pairs(one, other, gains, shares, missing, None if units is None else tuple(units), merged_from)


def _units(
    singles: tuple[Singles, Singles], means: tuple[Array, Array], places: NDArray[np.int64], direction: Direction
) -> list[Unit]:
    sign = 1.0 if direction is Direction.MAXIMIZE else -1.0
    sides = [
        [sign * np.asarray(given[place] if len(given[place]) else (mean[place],), dtype=np.float64) for place in places]
        for given, mean in zip(singles, means, strict=True)
    ]
    return [Unit(*answers) for answers in zip(*sides, strict=True)]


def weighted_sum(weights: Array, values: Array) -> float:
    """Σ weight · value, exactly rounded. The order in which a BLAS adds up depends on the processor that it finds, and what is
    decided on one machine shall be worked out again on another, to the last digit that is told."""
    return math.fsum((weights * values).tolist())


def numbered(names: Sequence[Hashable]) -> NDArray[np.int64]:
    """The cluster of every sample as a number, in the order of their first samples."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def averaged(values: Array, weights: Array, which: NDArray[np.int64]) -> Array:
    """The mean of every cluster."""
    return np.bincount(which, weights * values) / np.bincount(which, weights)


def _mean_weights(weights: Array, which: NDArray[np.int64]) -> Array:
    return np.bincount(which, weights) / np.bincount(which)


def _together(units: Sequence[Unit], weights: Array, which: NDArray[np.int64]) -> list[Unit]:
    """One unit for every cluster. Its nth answer is the mean of its samples' nth answers: copies may well answer alike, and
    what answers alike must be moved together."""
    members: list[list[int]] = [[] for _ in range(int(which.max()) + 1)]
    for place, cluster in enumerate(which):
        members[cluster].append(place)
    return [
        units[own[0]]
        if len(own) == 1
        else Unit(
            _nth_means([units[place].reference for place in own], weights[own]),
            _nth_means([units[place].candidate for place in own], weights[own]),
        )
        for own in members
    ]


def _nth_means(answers: Sequence[Array], weights: Array) -> Array:
    """Over those samples that have an nth answer."""
    longest = max(map(len, answers))
    table = np.full((len(answers), longest), np.nan)
    for row, given in zip(table, answers, strict=True):
        row[: len(given)] = given
    known = ~np.isnan(table)
    return np.asarray((np.where(known, table, 0.0) * weights[:, None]).sum(axis=0) / (known * weights[:, None]).sum(axis=0))
