"""How far people who labelled the same items agree beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha.

Each is 1 less what was observed to differ by what would differ by chance. The interval is a bootstrap over items: they are
drawn again, with all that was said of each. Where categories are steps of a scale, a difference counts by its square. Where
everybody said the same of everything, chance would differ nowhere either, and nothing can be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["cohen", "fleiss", "krippendorff"]
Array = NDArray[np.float64]

RESAMPLES: Final = 2_000
AT_ONCE: Final = 250
"""Resamples that are worked out together."""
ALPHA: Final = 0.05
LEAST_ITEMS: Final = 3
"""Below which items drawn again tell nothing of others."""
MOST_WITHOUT: Final = 0.05
"""Of the resamples may be such that nothing can be told; with more there is no interval."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """How far people agree, by one method."""

    method: Method
    value: float | None
    """1 where they always agree, 0 as by chance, below 0 less than that; None where all said the same of everything."""
    low: float | None
    high: float | None
    items: int
    """That it is about."""
    people: int


@dataclass(frozen=True, slots=True)
class _Counted:
    """Of each item, what enters what was observed, and what enters chance."""

    observed: Array
    """Disagreement within each item."""
    weights: Array
    """What each item counts for in `observed`."""
    marginals: tuple[Array, Array]
    """Two tables, items by categories: chance draws one label from each."""
    again: bool
    """Whether chance draws from the same table twice, and not the same label."""


def agreement(said: Sequence[Sequence[int | None]], categories: int, *, ordered: bool, seed: int) -> list[Coefficient]:
    """Work out what applies; `said` has a row for each item and, in it, the category that each person chose.

    Cohen's kappa is of two people, Fleiss' of more; both are of the items that all of them labelled. Krippendorff's alpha takes
    whatever two or more labelled.
    """
    table = np.array([[-1 if one is None else one for one in row] for row in said], dtype=np.int64)
    if table.size == 0 or table.shape[1] < 2:
        return []
    apart = _distances(categories, ordered=ordered)
    people = table.shape[1]
    found = []
    whole = table[(table >= 0).all(axis=1)]
    if len(whole):
        method: Method = "cohen" if people == 2 else "fleiss"
        counted = _of_two(whole, apart) if people == 2 else _of_all(whole, apart)
        found.append(_coefficient(method, counted, apart, len(whole), people, seed))
    shared = table[(table >= 0).sum(axis=1) >= 2]
    if len(shared):
        found.append(_coefficient("krippendorff", _of_any(shared, apart), apart, len(shared), people, seed))
    return found


def _distances(categories: int, *, ordered: bool) -> Array:
    steps = np.arange(categories, dtype=np.float64)
    differences = steps[:, None] - steps[None, :]
    return np.asarray(differences**2 if ordered else (differences != 0).astype(np.float64))


def _one_hot(chosen: NDArray[np.int64], categories: int) -> Array:
    return np.asarray((chosen[:, None] == np.arange(categories)[None, :]).astype(np.float64))


def _of_two(table: NDArray[np.int64], apart: Array) -> _Counted:
    first, second = table[:, 0], table[:, 1]
    marginals = _one_hot(first, len(apart)), _one_hot(second, len(apart))
    return _Counted(apart[first, second], np.ones(len(table)), marginals, again=False)


def _counts(table: NDArray[np.int64], categories: int) -> Array:
    return np.asarray(sum(_one_hot(table[:, person], categories) for person in range(table.shape[1])))


def _within(counts: Array, apart: Array) -> Array:
    """How far two labels of an item differ, on average over its pairs."""
    labels = counts.sum(axis=1)
    return np.asarray(((counts @ apart) * counts).sum(axis=1) / (labels * (labels - 1)))


def _of_all(table: NDArray[np.int64], apart: Array) -> _Counted:
    counts = _counts(table, len(apart))
    return _Counted(_within(counts, apart), np.ones(len(table)), (counts, counts), again=False)


def _of_any(table: NDArray[np.int64], apart: Array) -> _Counted:
    counts = _counts(table, len(apart))
    return _Counted(_within(counts, apart), counts.sum(axis=1), (counts, counts), again=True)


def _values(counted: _Counted, apart: Array, times: Array) -> Array:
    """The coefficient where each item is there so many times, for every row of `times`; NaN where nothing can be told."""
    observed = (times @ (counted.observed * counted.weights)) / (times @ counted.weights)
    first, second = times @ counted.marginals[0], times @ counted.marginals[1]
    pairs = first.sum(axis=1) * (second.sum(axis=1) - (1 if counted.again else 0))  # a label is no distance from itself
    expected = ((first @ apart) * second).sum(axis=1) / pairs
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - observed / expected, np.nan))


def _coefficient(method: Method, counted: _Counted, apart: Array, items: int, people: int, seed: int) -> Coefficient:
    value = float(_values(counted, apart, np.ones((1, items)))[0])
    if np.isnan(value):
        return Coefficient(method, None, None, None, items, people)
    low = high = None
    if items >= LEAST_ITEMS:
        generator = np.random.default_rng([seed & (2**63 - 1), items])
        drawn = [
            _values(counted, apart, generator.multinomial(items, np.full(items, 1 / items), size=AT_ONCE).astype(np.float64))
            for _ in range(RESAMPLES // AT_ONCE)
        ]
        known = np.concatenate(drawn)
        known = known[~np.isnan(known)]
        if len(known) >= (1 - MOST_WITHOUT) * RESAMPLES:
            low, high = (float(bound) for bound in np.quantile(known, (ALPHA / 2, 1 - ALPHA / 2)))
    return Coefficient(method, value, low, high, items, people)
