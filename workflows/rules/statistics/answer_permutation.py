"""Is there a gain at all, where both trials answered unequally often? The permutation test of single answers.

Under "no difference" whoever gave which answer to a sample is chance: of all its answers, any so many could be the
candidate's. That holds however often each side answered, while the sign of a gain is a coin only when both answered equally
often. (Of five answers of the baseline and one of the candidate, at a pass rate of .95, most gains are 0 or +.2 and few are
-.8: too many signs are positive.) Passes among the candidate's answers are hypergeometric then, sample by sample.

A sample that both answered equally often is swapped as a whole, which with one answer each is the same. Elsewhere a candidate
that changes some samples for better and as many for worse, always, is no chance of single answers. So a claim needs the flips
of signs as well: the larger of both p-values counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from workflows.rules.statistics.answer_deals import DRAWS, Steps, distribution, random_sums, shares, tails
from workflows.rules.statistics.gain_pairs import Array, Pairs, Unit
from workflows.rules.statistics.sign_flip import MOST_STEPS, SAME_STEP, SignFlip, sign_flip

PER_UNIT = (1, 2, 3, 4, 5, 8, 10, 20, 100)
"""Grids of single scores that are looked for."""

ENUMERATED = 1 << 16
"""Up to so many ways to deal all answers, every one is looked at."""

MOST_KINDS = 1_000
"""Of samples, for an exact distribution."""

WAYS = 512
"""Ways to deal the answers to one sample from which random deals choose. Where there are more, it is the observed one with
random ones: under "no difference" these are alike, so that the test keeps its rate."""


class Deals(NamedTuple):
    """What one sample may add to the mean gain: different values with their chances, the observed one among them."""

    values: Array
    chances: Array


@dataclass(frozen=True, slots=True)
class _Dealt:
    """Samples that are alike: the same values with the same chances, so many times."""

    deals: Deals
    times: int


def permutation_test(pairs: Pairs, seed: int = 0) -> SignFlip:
    """The permutation test of the weighted mean gain, whatever the replicates of both sides."""
    flips = sign_flip(pairs, seed)
    if pairs.units is None:
        return flips
    dealt = exchange(pairs, seed)
    return SignFlip(max(dealt.gain, flips.gain), max(dealt.loss, flips.loss), dealt.method)


def exchange(pairs: Pairs, seed: int = 0) -> SignFlip:
    """The test by dealing out answers alone."""
    assert pairs.units is not None
    if not pairs.gains.any() and all(np.ptp(_all(unit)) == 0 for unit in pairs.units):
        return SignFlip(1.0, 1.0, "no sample differs")
    kinds = _kinds(pairs)
    observed = pairs.effect
    if kinds is not None:
        found = _enumerated(kinds, observed)
        if found is not None:
            return SignFlip(*found, "exact permutation test of answers")
        found = _on_grid(kinds, pairs.shares.min(), _common_multiple(pairs.units), observed)
        if found is not None:
            return SignFlip(*found, "exact permutation test of answers")
    return SignFlip(*_at_random(pairs, seed), f"permutation test of answers, {DRAWS:,} deals")


def variance_of_answers(pairs: Pairs) -> float:
    """The variance of one sample's gain as its single answers have it, in the unit of `Moments.variance`."""
    if pairs.units is None:
        return 0.0
    parts = pairs.n * pairs.shares
    own = [_variance(unit) if unit.unequal else float(gain**2) for unit, gain in zip(pairs.units, pairs.gains, strict=True)]
    return float(np.mean(parts**2 * np.array(own)))


def _variance(unit: Unit) -> float:
    """Of the difference of two means, when all answers are dealt out anew."""
    every = _all(unit)
    return float(every.var(ddof=1)) * (1 / len(unit.reference) + 1 / len(unit.candidate))


def _all(unit: Unit) -> Array:
    return np.concatenate([unit.reference, unit.candidate])


# -- exactly ------------------------------------------------------------------------------------------------------------------


def _kinds(pairs: Pairs) -> list[_Dealt] | None:
    """The samples, those that are alike together; None where there are too many kinds, or too many ways to deal one."""
    assert pairs.units is not None
    times: dict[tuple[float, int, int, bytes], int] = {}
    examples: dict[tuple[float, int, int, bytes], Unit] = {}
    for unit, share in zip(pairs.units, pairs.shares, strict=True):
        key = (float(share), len(unit.reference), len(unit.candidate), np.sort(_all(unit)).tobytes())
        if not unit.unequal:  # swapped as a whole, so that the halves count and not the answers
            gain = unit.candidate.mean() - unit.reference.mean()
            key = (float(share), 1, 1, np.array([abs(gain)]).tobytes())
        times[key] = times.get(key, 0) + 1
        if len(times) > MOST_KINDS:
            return None
        examples.setdefault(key, unit)
    kinds = []
    for key, unit in examples.items():
        deals = _deals(unit)
        if deals is None:
            return None
        if len(deals.values) > 1:
            kinds.append(_Dealt(Deals(deals.values * key[0], deals.chances), times[key]))
    return kinds


def _deals(unit: Unit) -> Deals | None:
    """Every gain that dealing the answers to one sample can give; None where there are too many ways."""
    if not unit.unequal:
        gain = abs(float(unit.candidate.mean() - unit.reference.mean()))
        return Deals(np.array([-gain, gain]), np.array([0.5, 0.5])) if gain else Deals(np.zeros(1), np.ones(1))
    every, own = _all(unit), len(unit.candidate)
    others = len(every) - own
    levels, counts = np.unique(every, return_counts=True)
    if len(levels) == 1:
        return Deals(np.zeros(1), np.ones(1))
    if len(levels) == 2:
        passes = int(counts[1])
        taken = np.arange(max(0, own - int(counts[0])), min(own, passes) + 1)
        chances = np.array([_hypergeometric(int(k), passes, len(every), own) for k in taken])
        gains = (levels[1] - levels[0]) * (taken / own - (passes - taken) / others)
        return Deals(gains, chances)
    if math.comb(len(every), own) > WAYS:
        return None
    sums = every[list(combinations(range(len(every)), own))].sum(axis=1)
    gains = sums / own - (every.sum() - sums) / others
    return _merged(gains, np.full(len(gains), 1 / len(gains)))


def _hypergeometric(taken: int, passes: int, answers: int, own: int) -> float:
    return math.comb(passes, taken) * math.comb(answers - passes, own - taken) / math.comb(answers, own)


def _merged(values: Array, chances: Array) -> Deals:
    """Values that differ in the last digits only are one."""
    order = np.argsort(values, kind="stable")
    values, chances = values[order], chances[order]
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > 1e-12 * max(1.0, float(np.abs(values).max())))
    return Deals(values[starts], np.add.reduceat(chances, starts))


def _enumerated(kinds: Sequence[_Dealt], observed: float) -> tuple[float, float] | None:
    """Over every way to deal all answers, where these are few."""
    if math.fsum(kind.times * math.log(len(kind.deals.values)) for kind in kinds) > math.log(ENUMERATED):
        return None
    values, chances = np.zeros(1), np.ones(1)
    for kind in kinds:
        for _ in range(kind.times):
            values = np.add.outer(values, kind.deals.values).ravel()
            chances = np.multiply.outer(chances, kind.deals.chances).ravel()
    return tails(values, chances, observed)


def _on_grid(kinds: Sequence[_Dealt], share: float, common: int, observed: float) -> tuple[float, float] | None:
    """The exact distribution, where all gains lie on a grid."""
    for per_unit in PER_UNIT:
        one = share / (common * per_unit)
        steps = [(kind.deals.values - kind.deals.values[0]) / one for kind in kinds]
        whole = [np.rint(found) for found in steps]
        if all(b.max() <= MOST_STEPS and np.all(np.abs(a - b) < SAME_STEP) for a, b in zip(steps, whole, strict=True)):
            coarsest = float(np.gcd.reduce(np.concatenate(whole).astype(np.int64)))
            chances = distribution(
                [
                    Steps((found / coarsest).astype(np.int64), kind.deals.chances, kind.times)
                    for found, kind in zip(whole, kinds, strict=True)
                ]
            )
            if chances is None:
                return None
            lowest = math.fsum(kind.times * float(kind.deals.values[0]) for kind in kinds)
            place = round((observed - lowest) / (one * coarsest))
            return min(1.0, float(chances[place:].sum())), min(1.0, float(chances[: place + 1].sum()))
    return None


def _common_multiple(units: Sequence[Unit]) -> int:
    answers = {count for unit in units for count in (len(unit.reference), len(unit.candidate))}
    return math.lcm(*answers)


# -- at random ----------------------------------------------------------------------------------------------------------------


def _at_random(pairs: Pairs, seed: int) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    return shares(random_sums([*_tables(pairs, random)], random), pairs.effect)


def _tables(pairs: Pairs, random: np.random.Generator) -> Iterator[Array]:
    """For samples with the same numbers of answers: what each may add, every entry as likely as the others."""
    assert pairs.units is not None
    alike: dict[tuple[int, int], list[int]] = {}
    for place, unit in enumerate(pairs.units):
        sizes = (len(unit.reference), len(unit.candidate)) if unit.unequal else (1, 1)
        alike.setdefault(sizes, []).append(place)
    for (others, own), places in alike.items():
        shares = pairs.shares[places][:, None]
        if others == own:
            yield shares * (pairs.gains[places][:, None] * np.array([1.0, -1.0]))
            continue
        every = np.stack([np.concatenate([pairs.units[p].candidate, pairs.units[p].reference]) for p in places])
        sums = _sums(every, own, random)
        yield shares * (sums / own - (every.sum(axis=1)[:, None] - sums) / others)


def _sums(every: Array, own: int, random: np.random.Generator) -> Array:
    """What the candidate's answers may add up to, sample by sample; the observed one is the first."""
    answers = every.shape[1]
    if math.comb(answers, own) <= WAYS:
        return np.asarray(every[:, list(combinations(range(answers), own))].sum(axis=2))
    dealt = [every[:, :own].sum(axis=1)]
    for _ in range(WAYS - 1):
        dealt.append(random.permuted(every, axis=1)[:, :own].sum(axis=1))
    return np.stack(dealt, axis=1)
