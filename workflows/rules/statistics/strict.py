"""The strict rule of document 000, what it costs, and must-pass samples: passes counted replicate by replicate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from workflows.model.spec.judgement import MustPass
from workflows.rules.statistics.distributions import binomial_at_least, hypergeometric_at_least

Passes = Sequence[tuple[int, int]]
"""For every sample: replicates passed, of replicates answered."""


class StrictCounts(NamedTuple):
    """Samples that pass in every replicate of the reference, and how many of them do not in the candidate."""

    baseline: int
    broken: int


def strict_counts(reference: Passes, candidate: Passes, clusters: Sequence[Hashable] | None = None) -> StrictCounts:
    """A sample without an answer counts as broken, as a failure does.

    Those of one cluster are counted once, and looked at one by one: a group seldom passes as a whole, and what was always
    passed of it would be lost unseen.
    """
    consistent = [place for place, (passed, answered) in enumerate(reference) if answered and passed == answered]
    broken = [place for place in consistent if candidate[place][1] == 0 or candidate[place][0] < candidate[place][1]]
    if clusters is None:
        return StrictCounts(len(consistent), len(broken))
    return StrictCounts(*(len({clusters[place] for place in places}) for places in (consistent, broken)))


def false_rejection_rate(reference: Passes, candidate: Passes | None = None) -> float:
    """How often the strict rule rejects a candidate that is exactly as good as the reference.

    What counts is how often the candidate was asked; without it, as often as the reference.

    A candidate survives when no sample passes all replicates first and fails one then. How pass probabilities spread over the
    samples is taken from the reference's own replicates (a beta distribution by moments; one value for all without replicates).
    """
    places = [place for place, pair in enumerate(reference) if pair[1]]
    if not places:
        return 1.0
    counts = np.array([reference[place] for place in places], dtype=np.float64)
    passed, answered = counts[:, 0], counts[:, 1]
    again = np.array([(candidate or reference)[place][1] for place in places], dtype=np.float64)
    seen = float(passed.sum() / answered.sum())
    spread = _spread(passed, answered, seen)
    # Half a pass and half a failure more: a few failures are seen less often than they happen. Who never fails may be steady.
    mean = float((passed.sum() + 0.5) / (answered.sum() + 1)) if 0 < seen < 1 and spread < 1 - 1e-9 else seen
    survive = 1 - _moment(mean, spread, answered) + _moment(mean, spread, answered + again)
    return float(1 - np.prod(np.clip(survive, 0.0, 1.0)))


def _spread(passed: np.ndarray, answered: np.ndarray, mean: float) -> float:
    """The intraclass correlation: 0 when all samples are alike, 1 when each passes always or never."""
    repeated = answered > 1
    if not repeated.any() or mean in (0.0, 1.0):
        return 0.0
    rates, times = passed[repeated] / answered[repeated], answered[repeated]
    within = float(np.mean(rates * (1 - rates) * times / (times - 1)))
    return min(1.0, max(0.0, 1 - within / (mean * (1 - mean))))


def _moment(mean: float, spread: float, power: np.ndarray) -> np.ndarray:
    """E[p^power] of the beta distribution with this mean and intraclass correlation."""
    if mean in (0.0, 1.0) or spread >= 1 - 1e-9:
        return np.full_like(power, mean)
    if spread <= 1e-9:
        return np.asarray(mean**power)
    strength = 1 / spread - 1
    first, second = mean * strength, (1 - mean) * strength
    return np.asarray(np.exp(betaln(first + power, second) - betaln(first, second)))


def broken_must_pass(reference: Passes, candidate: Passes, named: Mapping[int, str], rule: MustPass, alpha: float) -> list[str]:
    """The must-pass samples that the candidate failed more often than its flake rate explains.

    A sample that was not answered is not passed. With a flake rate, failures are tolerated while that many of them are not
    rarer than alpha, shared among all must-pass samples. A measured rate is as uncertain as the reference's answers are few:
    then it is the chance that of all failures, the reference's and these, so many are among these answers (Fisher's test).
    A reference that never failed shows no flakes, and one failure is one too many.
    """
    flake, failed, asked = (0.0, *_flakes(reference, named)) if rule.flake_rate == "measured" else (rule.flake_rate, 0, 0)
    broken = []
    for place, name in named.items():
        passed, answered = candidate[place]
        failures = answered - passed
        chance = 0.0
        if answered and failed:
            chance = hypergeometric_at_least(failures, failed + failures, asked + answered, answered)
        elif answered:
            chance = binomial_at_least(failures, answered, flake)
        if answered == 0 or (failures and chance <= alpha / len(named)):
            broken.append(name)
    return broken


def _flakes(reference: Passes, named: Mapping[int, str]) -> tuple[int, int]:
    """How often the reference failed these samples, of how many answers; one that it never passes says nothing of flakes."""
    counts = [reference[place] for place in named if reference[place][0]]
    answered = sum(count[1] for count in counts)
    return answered - sum(count[0] for count in counts), answered
