"""Sums over samples of which each adds one of its possible values by chance: their exact distribution, or random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from workflows.rules.statistics.gain_pairs import Array

DRAWS = 20_000
"""Random sums where the exact distribution is out of reach; the p-value is then known to ±0.003 at 0.05."""

MOST_WORK = 500_000_000
"""Steps of arithmetic for an exact distribution; beyond it, sums are drawn."""

WIDEST = 10_000_000
"""Steps from the smallest sum to the largest, for the same reason."""

DRAWN_SINGLY = 256
"""Of more samples, blocks are drawn."""

BLOCK = 32
"""Samples of a block."""

SUMS_OF_BLOCK = 2048
"""How many sums of a block there are to choose from: the observed one and random ones. Under "no difference" these are alike,
so that a test which counts the observed sum among the drawn keeps its rate."""

CHUNK = 1 << 19
"""Random numbers that are drawn at once, so that they stay in the cache."""


class Steps(NamedTuple):
    """What each of some samples that are alike may add, as whole steps from 0 on, with their chances."""

    steps: NDArray[np.int64]
    chances: Array
    times: int
    """How many samples."""


def distribution(kinds: Sequence[Steps]) -> Array | None:
    """The chances of every sum, from 0 on; None where that takes too long."""
    work, wide = 0, 1
    for kind in (ordered := sorted(kinds, key=_width)):
        work += wide * len(kind.steps) if kind.times == 1 else wide * _width(kind) + _width(kind) ** 2 // 2
        wide += _width(kind)
    if work > MOST_WORK or wide > WIDEST:
        return None
    total = np.ones(1)
    for kind in ordered:
        total = _one_more(total, kind) if kind.times == 1 else np.convolve(total, _of_all(kind))
    return total


def _width(kind: Steps) -> int:
    return int(kind.steps[-1]) * kind.times


def _one_more(total: Array, kind: Steps) -> Array:
    longer = np.zeros(len(total) + int(kind.steps[-1]))
    for step, chance in zip(kind.steps, kind.chances, strict=True):
        longer[step : step + len(total)] += chance * total
    return longer


def _of_all(kind: Steps) -> Array:
    """The distribution of the sum over samples that are alike."""
    if len(kind.steps) == 2:
        return _of_two(kind)
    single = np.zeros(int(kind.steps[-1]) + 1)
    single[kind.steps] = kind.chances
    total, times = np.ones(1), kind.times
    while times:
        total = np.convolve(total, single) if times & 1 else total
        times >>= 1
        single = np.convolve(single, single) if times else single
    return total


def _of_two(kind: Steps) -> Array:
    """Binomial."""
    times, (low, high) = kind.times, kind.steps
    taken = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(taken + 1) - gammaln(times - taken + 1)
    total = np.zeros(int(high) * times + 1)
    total[taken * high + (times - taken) * low] = np.exp(
        ways + taken * math.log(kind.chances[1]) + (times - taken) * math.log(kind.chances[0])
    )
    return total


def random_sums(tables: Sequence[Array], random: np.random.Generator) -> Array:
    """So many sums. Each table has a row for every sample with its values, all as likely; the observed one comes first."""
    blocked = [_blocks(table, random) if len(table) > DRAWN_SINGLY else table for table in tables]
    return np.asarray(sum((_drawn(table, DRAWS, random) for table in blocked), np.zeros(DRAWS)))


def _blocks(table: Array, random: np.random.Generator) -> Array:
    """The same samples in blocks, each with the observed sum and random ones."""
    blocks = [table[start : start + BLOCK] for start in range(0, len(table), BLOCK)]
    others = [_drawn(block, SUMS_OF_BLOCK - 1, random) for block in blocks]
    return np.stack([np.concatenate([[block[:, 0].sum()], found]) for block, found in zip(blocks, others, strict=True)])


def _drawn(table: Array, draws: int, random: np.random.Generator) -> Array:
    samples, ways = table.shape
    flat, starts = table.ravel(), np.arange(samples) * ways
    rows = max(1, CHUNK // samples)
    parts = []
    for done in range(0, draws, rows):
        chosen = random.integers(0, ways, size=(min(rows, draws - done), samples), dtype=np.uint16)
        parts.append(flat[chosen + starts].sum(axis=1))
    return np.concatenate(parts)


def tails(sums: Array, chances: Array, observed: float) -> tuple[float, float]:
    """The chance of at least, and of at most, the observed sum."""
    near = 1e-9 * max(1.0, abs(observed))
    gain, loss = chances[sums >= observed - near].sum(), chances[sums <= observed + near].sum()
    return min(1.0, float(gain)), min(1.0, float(loss))


def shares(sums: Array, observed: float) -> tuple[float, float]:
    """The same of drawn sums; the observed one is counted among them, so that it is never 0."""
    near = 1e-9 * max(1.0, abs(observed))
    total = len(sums) + 1
    return float((sums >= observed - near).sum() + 1) / total, float((sums <= observed + near).sum() + 1) / total
