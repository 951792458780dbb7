"""Noise first: what replicated answers of the baseline say about the measure, and what a design can then find out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtri

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import JudgementSpec, Noise, Plan
from workflows.rules.statistics.comparison import compare
from workflows.rules.statistics.mean_test import SAMPLES_HELD_BACK, least_variance

HALVINGS = 40
ENOUGH = 12
"""Samples with which every test can show something."""
MOST_REPLICATES = 20
"""More are not suggested; where they do not suffice, more samples are needed."""


def estimate_noise(replicates: Sequence[Sequence[float]]) -> Noise:
    """Variance within and between samples from each sample's replicate scores.

    Analysis of variance. Samples may have different numbers of replicates; those without an answer are left out.
    """
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
    comparisons: int = 1,
    power: float = 0.8,
) -> Plan:
    """What so many samples and replicates of every candidate can find out, said before anything is spent."""
    baseline = spec.baseline_replicates or replicates
    variance = noise.within * (1 / replicates + 1 / baseline)
    reach = spec.score_range or 1.0
    found = Plan(
        samples=samples,
        replicates=replicates,
        baseline_replicates=baseline,
        detectable=_smallest(lambda gain: _finds(gain, variance, samples, spec, comparisons, power), reach),
        detectable_on_few=_smallest(
            lambda gain: _finds(gain, variance + least_variance(gain, reach), samples, spec, comparisons, power), reach
        ),
        margin=_smallest(lambda margin: _shows(margin, variance, samples, reach, spec, comparisons, power), reach),
        power=power,
        alpha=spec.alpha,
        comparisons=comparisons,
        calls_per_trial=samples * replicates,
        finds_any=_finds(reach, variance, samples, spec, comparisons, power) and _can_be_shown(samples, spec, comparisons),
    )
    reached = found.margin <= spec.margin if spec.rule == "non_inferiority" else found.detectable <= spec.margin
    found = found.model_copy(update={"reached": reached})
    return found.model_copy(update={"words": _words(found, spec)})


def design(
    noise: Noise,
    *,
    available: int,
    spec: JudgementSpec,
    comparisons: int = 1,
    power: float = 0.8,
    most_calls: int | None = None,
) -> Plan:
    """The cheapest samples and replicates that reach the spec's margin with the wanted power; what comes nearest otherwise.

    Samples first: an answer to another sample says at least as much as another answer to the same one.
    """
    most = most_calls or available * MOST_REPLICATES
    best: Plan | None = None
    for replicates in range(1, MOST_REPLICATES + 1):
        samples = min(available, most // replicates)
        if samples < 2:
            break
        full = plan(noise, samples=samples, replicates=replicates, spec=spec, comparisons=comparisons, power=power)
        if full.reached:
            return _fewest_samples(noise, full, spec, comparisons, power)
        if best is None or _goal(full, spec) < _goal(best, spec):
            best = full
    assert best is not None
    return best


def _fewest_samples(noise: Noise, full: Plan, spec: JudgementSpec, comparisons: int, power: float) -> Plan:
    low, high = 1, full.samples
    while high - low > 1:
        middle = (low + high) // 2
        tried = plan(noise, samples=middle, replicates=full.replicates, spec=spec, comparisons=comparisons, power=power)
        low, high = (low, middle) if tried.reached else (middle, high)
    return plan(noise, samples=high, replicates=full.replicates, spec=spec, comparisons=comparisons, power=power)


def _goal(found: Plan, spec: JudgementSpec) -> float:
    return found.margin if spec.rule == "non_inferiority" else found.detectable


def _finds(gain: float, variance: float, samples: int, spec: JudgementSpec, comparisons: int, power: float) -> bool:
    """Whether a true gain is called better with the wanted power."""
    reach = float(ndtri(1 - spec.alpha / comparisons) + ndtri(power))
    return gain >= reach * math.sqrt(variance / samples)


def _can_be_shown(samples: int, spec: JudgementSpec, comparisons: int) -> bool:
    """Whether the test itself can tell the largest gain on every sample from chance: with few samples none is rare enough."""
    if samples >= ENOUGH:
        return True
    found = compare([0.0] * samples, [1.0] * samples, spec=spec, direction=Direction.MAXIMIZE)
    return found.p_better <= spec.alpha / comparisons


def _shows(
    margin: float, variance: float, samples: int, reach: float, spec: JudgementSpec, comparisons: int, power: float
) -> bool:
    """Whether a candidate that is as good is called not worse by the margin with the wanted power."""
    counted = max(samples - SAMPLES_HELD_BACK, 0.5)
    critical = float(ndtri(1 - spec.alpha / comparisons)) * math.sqrt(max(variance, least_variance(margin, reach)) * samples)
    return margin >= critical / counted + float(ndtri(power)) * math.sqrt(variance / samples)


def _smallest(enough: Callable[[float], bool], reach: float) -> float:
    low, high = 0.0, reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _words(found: Plan, spec: JudgementSpec) -> str:
    together = f" over {found.comparisons} candidates" if found.comparisons > 1 else ""
    baseline = f" (the baseline: {found.baseline_replicates})" if found.baseline_replicates != found.replicates else ""
    design = f"{found.samples} samples x {found.replicates} replicate{'' if found.replicates == 1 else 's'}{baseline}"
    if spec.rule == "non_inferiority":
        told = f"an equally good candidate is called not worse in {found.power:.0%} of cases at a margin of {found.margin:.3f}"
        missed = f"; for the margin of {spec.margin:g} take more samples or replicates" if not found.reached else ""
    else:
        often = f"is found in {found.power:.0%} of cases"
        told = (
            f"a true gain of {found.detectable:.3f} {often} ({found.detectable_on_few:.3f} if only few samples gain)"
            if found.finds_any
            else f"no gain, however large, {often}"
        )
        missed = ""
    return f"with {design}, at {found.alpha:.0%} error{together}, {told}{missed}"
