"""How others decide that a changed prompt may replace the present one, for comparison."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

Passes = NDArray[np.int64]


class Trials(NamedTuple):
    """Passes per sample of baseline and candidate, of `replicates` each."""

    baseline: Passes
    candidate: Passes
    replicates: int


def strict(trials: Trials, random: np.random.Generator) -> bool:
    """Document 000: what the baseline passes in every run, the candidate passes in every run."""
    always = trials.baseline == trials.replicates
    return bool(np.all(trials.candidate[always] == trials.replicates))


def mean_at_least(trials: Trials, random: np.random.Generator) -> bool:
    """The candidate's mean is not below the baseline's."""
    return bool(trials.candidate.sum() >= trials.baseline.sum())


def mcnemar_not_significant(trials: Trials, random: np.random.Generator) -> bool:
    """No significant difference (two-sided, 5 %) between the majority votes of each sample's runs."""
    one, other = 2 * trials.baseline > trials.replicates, 2 * trials.candidate > trials.replicates
    gained, lost = int((~one & other).sum()), int((one & ~other).sum())
    return gained + lost == 0 or binomtest(gained, gained + lost).pvalue > 0.05


def three_sample_gate(trials: Trials, random: np.random.Generator) -> bool:
    """The `gepa` package: on three random samples, one run each, the candidate's sum is strictly higher."""
    drawn = random.choice(len(trials.baseline), 3, replace=False)
    baseline = random.random(3) < trials.baseline[drawn] / trials.replicates
    candidate = random.random(3) < trials.candidate[drawn] / trials.replicates
    return bool(candidate.sum() > baseline.sum())


RULES = {
    "strict rule of 000": strict,
    "mean >= baseline": mean_at_least,
    "McNemar not significant": mcnemar_not_significant,
    "3-sample gate of gepa": three_sample_gate,
}
