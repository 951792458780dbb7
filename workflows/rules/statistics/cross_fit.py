"""Is the winner better where its choice did not look? Confirmation on the samples of the search, when none were held back.

The samples are divided into folds, many times. For each fold the winner is chosen again, by the rule of the run, by what all
others scored; its gain over the baseline is taken on that fold. So the figure carries no luck of the choice.

Gains of folds depend on each other: what one fold says is part of the choice for the others. No formula for independent
samples knows how much that varies, and a naive test claims too much. So the test repeats the whole of it, choice and all, with
the gains of every sample turned to losses by the toss of a coin, in all candidates at once: without a true gain that is as
likely as what was seen. The interval is never narrower than these repetitions vary. How often the claim is wrong is measured
by `benchmarks/judgement.py`.

A candidate that was first measured on a part of the samples, and in full because it did well there, was chosen by that part:
its answers to it are luck of the choice that no fold takes away. They say nothing for it, so that its gain is told as no
larger than the other answers show.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ratchet._formats.canonical import derive_seed
from ratchet.optimizer import Direction
from workflows.model.measured_parts import MeasuredPart
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Evidence, JudgementSpec
from workflows.rules.decisions.best import length_of
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES
from workflows.rules.statistics.gain_pairs import Array, Pairs, Scores, averaged, numbered, weighted_sum
from workflows.rules.statistics.mean_test import Moments, interval, least_variance, lower_bound, moments, p_above

CONFIDENCE = 0.95
FOLDS = 5
DIVISIONS = 10
"""How often the samples are divided into folds anew."""
FLIPS, FEWEST_FLIPS = 999, 199
MOST_STEPS = 2_000_000_000
"""Samples × candidates × divisions × flips; beyond it there are fewer divisions and flips, which many samples need less."""
MOST_AT_ONCE = 2_000_000
"""Numbers that are held at a time."""
DECIMALS, SAME = 10, 1e-9
"""Candidates that score alike must tie on every machine, in whatever order it adds up: of those the first is taken."""

Chosen = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""The candidate that is chosen for every flip, and whether any is."""
Choice = Callable[[Array, Array, float, int], Chosen]
"""Chooses by the sums of weighted gains and of their squares over some samples, given their weight and their number."""


@dataclass(frozen=True, slots=True)
class _Gains:
    """What every candidate gained on every sample; the samples of one cluster are one."""

    reference: Array
    each: Array
    """Samples by candidates; 0 where either has no answer."""
    shares: Array
    """How much every sample counts; they add up to 1."""
    merged_from: int


class Searched(Protocol):
    """A finished trial of the search."""

    @property
    def configuration(self) -> Configuration: ...
    @property
    def config_hash(self) -> str: ...
    @property
    def round(self) -> int: ...
    @property
    def sample_means(self) -> Sequence[float | None] | None: ...


def search_cross_fitted(
    evidence: Evidence,
    baseline: Searched,
    candidates: Sequence[Searched],
    *,
    parts: Sequence[MeasuredPart],
    spec: JudgementSpec,
    direction: Direction,
    weights: Sequence[float] | None,
    clusters: Sequence[Hashable] | None,
    seed: int,
) -> Evidence:
    """The evidence against the baseline of what a run's search has chosen from these candidates, given what it measured of
    them before it measured them in full."""
    longest = length_of(baseline.configuration)
    shorter_by = [longest - length_of(candidate.configuration) for candidate in candidates]
    return cross_fit(
        evidence,
        baseline.sample_means or (),
        [_by_other_answers(candidate, parts, clusters) for candidate in candidates],
        spec=spec,
        direction=direction,
        weights=weights,
        clusters=clusters,
        shorter_by=shorter_by if spec.accept == "shorter" else None,
        seed=derive_seed(seed, "cross-fitting"),
    )


def _by_other_answers(candidate: Searched, parts: Sequence[MeasuredPart], clusters: Sequence[Hashable] | None) -> Scores:
    """Its scores without the parts that it was measured in full for."""
    means = candidate.sample_means or ()
    of_it = [part for part in parts if part.config_hash == candidate.config_hash and part.round <= candidate.round]
    looked_at = {place for part in of_it for place in range(len(means))[part.first :][: part.count]}
    if not looked_at:
        return means
    if clusters is not None:
        alike = {clusters[place] for place in looked_at}
        looked_at = {place for place in range(len(means)) if clusters[place] in alike}
    return [None if place in looked_at else mean for place, mean in enumerate(means)]


def cross_fit(
    evidence: Evidence,
    reference: Scores,
    candidates: Sequence[Scores],
    *,
    spec: JudgementSpec,
    direction: Direction = Direction.MAXIMIZE,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    shorter_by: Sequence[int] | None = None,
    seed: int = 0,
) -> Evidence:
    """What comparing the winner with the baseline found, with the figures that its choice has no part in.

    `evidence` is that of all samples, of which constraints, must-pass samples and further objectives are kept. `candidates` are
    the means by sample of all that the winner was chosen from. With `shorter_by`, by how much each is shorter than the
    baseline, the shortest wins that satisfies the rule, as the search has it.
    """
    gained = _gains(reference, candidates, weights, direction, clusters)
    n = len(gained.reference)
    if n < FEWEST_SAMPLES or evidence.refused is not None:
        return evidence
    choose = _best if shorter_by is None else _shortest(shorter_by, spec)
    steps = gained.each.size
    divisions = int(np.clip(MOST_STEPS // (steps * FEWEST_FLIPS), 1, DIVISIONS))
    flips = int(np.clip(MOST_STEPS // (steps * divisions), FEWEST_FLIPS, FLIPS))
    random = np.random.default_rng(seed)
    folds = np.stack([random.permutation(n) % min(FOLDS, n) for _ in range(divisions)])
    found = _held_out(gained, folds, choose)
    by_chance = _by_chance(gained, folds, choose, flips, random)
    pairs = Pairs(gained.reference, gained.reference + _signed(found, direction), found, gained.shares, evidence.missing)
    measured = _widened(moments(pairs, spec.score_range), float(by_chance.std()))
    low, high = interval(measured, CONFIDENCE)
    # By the answers that it was chosen for a winner looks better than it is: what these do not show is never claimed.
    p_better = max(evidence.p_better, float(1 + (by_chance >= pairs.effect - SAME).sum()) / (flips + 1))
    p_worse = float(1 + (by_chance <= pairs.effect + SAME).sum()) / (flips + 1)
    return evidence.model_copy(
        update={
            "method": f"cross-fitting, {divisions} x {folds.max() + 1} folds; permutation test of the choice, {flips} flips",
            "n": n,
            "merged_from": gained.merged_from,
            "reference_mean": weighted_sum(pairs.shares, pairs.reference),
            "mean": weighted_sum(pairs.shares, pairs.candidate),
            "effect": pairs.effect,
            "low": low,
            "high": high,
            "confidence": CONFIDENCE,
            "bound": lower_bound(measured, 1 - spec.alpha),
            "p_better": p_better,
            "p_not_worse": max(evidence.p_not_worse, p_above(measured, -spec.margin)) if spec.margin > 0 else p_better,
            "p_worse": p_worse,
            "better": int((found > SAME).sum()),
            "worse": int((found < -SAME).sum()),
        }
    )


def _gains(
    reference: Scores,
    candidates: Sequence[Scores],
    weights: Sequence[float] | None,
    direction: Direction,
    clusters: Sequence[Hashable] | None,
) -> _Gains:
    """A sample that a candidate did not answer says nothing for it and nothing against it: its race was over, or it failed."""
    one = _numbers(reference, len(reference))
    every = np.ones(len(one)) if weights is None else np.asarray(weights, dtype=np.float64)
    kept = ~np.isnan(one) & (every > 0)
    others = np.stack([_numbers(means, len(one)) for means in candidates], axis=1)[kept]
    one, every = one[kept], every[kept]
    gains = _signed(np.nan_to_num(others - one[:, None]), direction)
    merged_from = 0
    if clusters is not None and len(one):
        which = numbered([clusters[place] for place in np.flatnonzero(kept).tolist()])
        if which.max() + 1 < len(which):
            merged_from = len(which)
            gains = np.stack([averaged(column, every, which) for column in gains.T], axis=1)
            one, every = averaged(one, every, which), np.bincount(which, every) / np.bincount(which)
    return _Gains(one, gains, every / every.sum() if len(every) else every, merged_from)


def _numbers(scores: Scores, length: int) -> Array:
    known = [np.nan if value is None else value for value in scores][:length]
    return np.array([*known, *[np.nan] * (length - len(known))], dtype=np.float64)


def _signed(gains: Array, direction: Direction) -> Array:
    return gains if direction is Direction.MAXIMIZE else -gains


def _best(sums: Array, _squares: Array, _weight: float, _n: int) -> Chosen:
    """The highest score; the baseline where none is higher."""
    best = sums.argmax(axis=1)
    return best, np.asarray(sums[np.arange(len(sums)), best] > SAME)


def _shortest(shorter_by: Sequence[int], spec: JudgementSpec) -> Choice:
    """The shortest that satisfies the rule, by the plain test; the baseline where none does."""
    order = np.argsort(-np.asarray(shorter_by), kind="stable")
    order = order[np.asarray(shorter_by)[order] > 0]
    hypothesis = 0.0 if spec.rule == "improvement" else -spec.margin
    least = least_variance(hypothesis, spec.score_range or 1.0)

    def choose(sums: Array, squares: Array, weight: float, n: int) -> Chosen:
        means = sums[:, order] / weight
        spread = np.maximum(squares[order] / weight - means**2, least) / max(n - 1, 1)
        enough = means - hypothesis > stdtrit(max(n - 1, 1), 1 - spec.alpha) * np.sqrt(spread) + SAME
        if not len(order):
            return np.zeros(len(sums), dtype=np.int64), np.zeros(len(sums), dtype=np.bool_)
        return order[enough.argmax(axis=1)], np.asarray(enough.any(axis=1))

    return choose


def _held_out(gained: _Gains, folds: NDArray[np.int64], choose: Choice) -> Array:
    """What the chosen gained on every sample that was not looked at, on average over the divisions."""
    found = np.zeros(len(gained.reference))
    for division in folds:
        for held, _, (winner, any_won) in _choices(gained, np.ones((1, len(found))), division, choose):
            found[held] += np.where(any_won[0], gained.each[held, winner[0]], 0.0)
    return found / len(folds)


def _by_chance(gained: _Gains, folds: NDArray[np.int64], choose: Choice, flips: int, random: np.random.Generator) -> Array:
    """The mean gain of the chosen, where gains and losses of every sample are the toss of a coin."""
    found: list[Array] = []
    at_once = max(1, MOST_AT_ONCE // max(gained.each.shape))
    for begun in range(0, flips, at_once):
        signs = np.where(random.random((min(at_once, flips - begun), len(gained.reference))) < 0.5, -1.0, 1.0)
        gains, every = np.zeros(len(signs)), np.arange(len(signs))
        for division in folds:
            for _, sums, (winner, any_won) in _choices(gained, signs, division, choose):
                gains += np.where(any_won, sums[every, winner], 0.0)
        found.append(gains / len(folds))
    return np.concatenate(found)


def _choices(
    gained: _Gains, signs: Array, division: NDArray[np.int64], choose: Choice
) -> Iterator[tuple[NDArray[np.bool_], Array, Chosen]]:
    """For every fold: its samples, the sums of all candidates on it, and who is chosen by the others."""
    weighted = gained.shares[:, None] * gained.each
    held = [division == fold for fold in range(int(division.max()) + 1)]
    sums = [np.round(signs[:, places] @ weighted[places], DECIMALS) for places in held]
    squares = [gained.shares[places] @ gained.each[places] ** 2 for places in held]
    all_sums, all_squares = np.sum(sums, axis=0), np.sum(squares, axis=0)
    for places, inside, square in zip(held, sums, squares, strict=True):
        rest = ~places
        chosen = choose(
            np.round(all_sums - inside, DECIMALS), all_squares - square, float(gained.shares[rest].sum()), int(rest.sum())
        )
        yield places, inside, chosen


def _widened(found: Moments, deviation: float) -> Moments:
    """The mean varies at least as much as the whole procedure does by chance."""
    return replace(found, variance=max(found.variance, found.n * deviation**2))
