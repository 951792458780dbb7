"""A candidate against a reference: one piece of evidence with everything that a verdict may be asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ratchet.optimizer import Direction
from workflows.model.judgement import Evidence, JudgementSpec
from workflows.rules.judgement.answers import TrialAnswers
from workflows.rules.judgement.constraints import check_constraints
from workflows.rules.judgement.mann_whitney import mann_whitney, welch
from workflows.rules.judgement.mean_test import interval, lower_bound, moments, p_above
from workflows.rules.judgement.pairs import Pairs, pair
from workflows.rules.judgement.sign_flip import sign_flip
from workflows.rules.judgement.strict import broken_must_pass, false_rejection_rate, strict_counts
from workflows.rules.verdicts import FEWEST_SAMPLES

CONFIDENCE = 0.95
SHOWN = 10
"""How many broken must-pass samples the evidence names."""


def compare(
    reference: Sequence[float | None],
    candidate: Sequence[float | None],
    weights: Sequence[float] | None = None,
    *,
    spec: JudgementSpec,
    direction: Direction = Direction.MAXIMIZE,
    reference_id: str = "the baseline",
    seed: int = 0,
) -> Evidence:
    """Per-sample means of two trials over the same samples, None where an answer is missing."""
    if spec.test == "mann_whitney":
        return compare_unpaired(reference, candidate, spec=spec, direction=direction, reference_id=reference_id)
    pairs = pair(reference, candidate, weights, direction)
    if pairs.n < FEWEST_SAMPLES:
        refused = _refused(reference_id, spec, pairs.n, pairs.missing, "answered by both")
        return refused if not pairs.n else refused.model_copy(update={**_means(pairs), "effect": pairs.effect})
    found = moments(pairs, spec.score_range)
    flips = sign_flip(pairs, seed)
    low, high = interval(found, CONFIDENCE)
    return Evidence(
        reference=reference_id,
        method=flips.method if spec.rule != "non_inferiority" else "paired non-inferiority test",
        n=pairs.n,
        missing=pairs.missing,
        **_means(pairs),
        effect=pairs.effect,
        low=low,
        high=high,
        confidence=CONFIDENCE,
        bound=lower_bound(found, 1 - spec.alpha),
        p_better=flips.gain,
        p_not_worse=p_above(found, -spec.margin) if spec.margin > 0 else flips.gain,
        p_worse=flips.loss,
        alpha=spec.alpha,
        margin=spec.margin,
        better=int((pairs.gains > 0).sum()),
        worse=int((pairs.gains < 0).sum()),
    )


def compare_unpaired(
    reference: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    spec: JudgementSpec,
    direction: Direction = Direction.MAXIMIZE,
    reference_id: str = "the baseline",
) -> Evidence:
    """Two sets of episodes that share nothing: Mann and Whitney's test by ranks, the means with Welch's interval."""
    sign = 1.0 if direction is Direction.MAXIMIZE else -1.0
    one = np.array([value for value in reference if value is not None], dtype=np.float64)
    other = np.array([value for value in candidate if value is not None], dtype=np.float64)
    missing = len(reference) + len(candidate) - len(one) - len(other)
    fewest = min(len(one), len(other))
    if fewest < FEWEST_SAMPLES:
        return _refused(reference_id, spec, fewest, missing, "in the smaller group")
    ranks = mann_whitney(sign * one, sign * other)
    means = welch(sign * one, sign * other, CONFIDENCE, spec.alpha, spec.margin)
    return Evidence(
        reference=reference_id,
        method=ranks.method,
        n=fewest,
        missing=missing,
        reference_mean=float(one.mean()),
        mean=float(other.mean()),
        effect=means.effect,
        low=means.low,
        high=means.high,
        confidence=CONFIDENCE,
        bound=means.bound,
        p_better=ranks.gain,
        p_not_worse=means.p_not_worse,
        p_worse=ranks.loss,
        alpha=spec.alpha,
        margin=spec.margin,
    )


def evidence_of(
    reference: TrialAnswers,
    candidate: TrialAnswers,
    *,
    spec: JudgementSpec,
    direction: Direction = Direction.MAXIMIZE,
    reference_id: str = "the baseline",
    must_pass: Mapping[int, str] | None = None,
    seed: int = 0,
) -> Evidence:
    """Everything the spec asks for: the objective, the strict rule, must-pass samples, constraints, further objectives.

    `must_pass` are the places of the must-pass samples with their ids.
    """
    evidence = compare(
        reference.means,
        candidate.means,
        candidate.weights,
        spec=spec,
        direction=direction,
        reference_id=reference_id,
        seed=seed,
    )
    update: dict[str, object] = {"constraints": tuple(check_constraints(spec.constraints, reference, candidate))}
    if reference.passes is not None and candidate.passes is not None:
        counts = strict_counts(reference.passes, candidate.passes)
        update["strict_broken"], update["strict_baseline"] = counts.broken, counts.baseline
        if spec.rule == "strict":
            update["strict_false_rejections"] = false_rejection_rate(reference.passes)
        if spec.must_pass is not None:
            broken = broken_must_pass(reference.passes, candidate.passes, must_pass or {}, spec.must_pass, spec.alpha)
            update["must_pass_broken"] = tuple(broken[:SHOWN])
    update["objectives"] = {
        objective.measure: compare(
            reference.mean_of(objective.measure),
            candidate.mean_of(objective.measure),
            candidate.weights,
            spec=spec.model_copy(update={"margin": objective.margin, "score_range": None}),
            direction=objective.direction,
            reference_id=reference_id,
            seed=seed,
        )
        for objective in spec.objectives
    }
    return evidence.model_copy(update=update)


def _means(pairs: Pairs) -> dict[str, float]:
    return {
        "reference_mean": float(pairs.shares @ pairs.reference),
        "mean": float(pairs.shares @ pairs.candidate),
    }


def _refused(reference_id: str, spec: JudgementSpec, n: int, missing: int, where: str) -> Evidence:
    why = f"{n} samples {where} are too few, at least {FEWEST_SAMPLES} are needed"
    return Evidence(reference=reference_id, n=n, missing=missing, alpha=spec.alpha, margin=spec.margin, refused=why)
