"""Noise first: what replicated answers of the baseline say about the measure, and what a design can then find out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from workflows.model.judgement import JudgementSpec, Noise, Plan


def estimate_noise(replicates: Sequence[Sequence[float]]) -> Noise:
    """Variance within and between samples from each sample's replicate scores (analysis of variance; samples may have
    different numbers of replicates, those without an answer are left out)."""
    groups = [np.asarray(scores, dtype=np.float64) for scores in replicates if len(scores)]
    if not groups:
        return Noise(samples=0, replicates=0.0, mean=0.0, within=0.0, between=0.0)
    sizes = np.array([len(group) for group in groups], dtype=np.float64)
    means = np.array([group.mean() for group in groups])
    freedom = float(sizes.sum() - len(groups))
    squares = math.fsum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    within = squares / freedom if freedom else 0.0
    between = 0.0
    if len(groups) > 1:
        between = max(0.0, float(means.var(ddof=1)) - within * float((1 / sizes).mean()))
    return Noise(
        samples=len(groups),
        replicates=float(sizes.mean()),
        mean=float(means.mean()),
        within=within,
        between=between,
        noisy_samples=sum(1 for group in groups if np.ptp(group) > 0),
    )


def plan(
    noise: Noise,
    *,
    samples: int,
    replicates: int,
    spec: JudgementSpec,
    baseline_replicates: int | None = None,
    comparisons: int = 1,
    power: float = 0.8,
) -> Plan:
    """What so many samples and replicates can find out."""
    raise NotImplementedError
