"""A candidate against a reference: one piece of evidence with everything that a verdict may be asked for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import Evidence, JudgementSpec
from workflows.rules.decisions.verdicts import FEWEST_SAMPLES
from workflows.rules.statistics.answer_permutation import permutation_test
from workflows.rules.statistics.constraints import check_constraints
from workflows.rules.statistics.gain_pairs import Array, Pairs, Singles, averaged, numbered, pair, weighted_sum
from workflows.rules.statistics.mann_whitney import mann_whitney, unpaired_moments, welch
from workflows.rules.statistics.mean_test import Bounds, interval, lower_bound, moments, p_above
from workflows.rules.statistics.sign_flip import SignFlip
from workflows.rules.statistics.strict import broken_must_pass, false_rejection_rate, strict_counts
from workflows.rules.statistics.trial_answers import TrialAnswers

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
    singles: tuple[Singles, Singles] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Evidence:
    """Per-sample means of two trials over the same samples, None where an answer is missing.

    `singles` are the scores of single answers, without which both trials are taken to have answered equally often; `clusters`
    names what each sample belongs to, where several count as one.
    """
    if spec.test == "mann_whitney":
        return compare_unpaired(
            reference,
            candidate,
            spec=spec,
            direction=direction,
            reference_id=reference_id,
            singles=singles,
            clusters=clusters,
        )
    pairs = pair(reference, candidate, weights, direction, singles=singles, clusters=clusters)
    if pairs.n < FEWEST_SAMPLES:
        refused = _refused(reference_id, spec, pairs.n, pairs.missing, "answered by both")
        return refused if not pairs.n else refused.model_copy(update={**_means(pairs), "effect": pairs.effect})
    found = moments(pairs, spec.score_range)
    by_chance = permutation_test(pairs, seed)
    low, high = _agreeing(interval(found, CONFIDENCE), by_chance)
    return Evidence(
        reference=reference_id,
        method=by_chance.method if spec.rule != "non_inferiority" else "paired non-inferiority test",
        n=pairs.n,
        merged_from=pairs.merged_from,
        missing=pairs.missing,
        **_means(pairs),
        effect=pairs.effect,
        low=low,
        high=high,
        confidence=CONFIDENCE,
        bound=lower_bound(found, 1 - spec.alpha),
        p_better=by_chance.gain,
        p_not_worse=p_above(found, -spec.margin) if spec.margin > 0 else by_chance.gain,
        p_worse=by_chance.loss,
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
    singles: tuple[Singles, Singles] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> Evidence:
    """Two sets of episodes that share nothing: Mann and Whitney's test by ranks, the means with Welch's interval.

    Means over many answers rank higher, or lower, than single ones of the same kind: what is ranked are means over as many
    answers of both sides.
    """
    sign = 1.0 if direction is Direction.MAXIMIZE else -1.0
    one, other = _episodes(reference, clusters), _episodes(candidate, clusters)
    missing = sum(value is None for value in (*reference, *candidate))
    fewest = min(len(one), len(other))
    if fewest < FEWEST_SAMPLES:
        return _refused(reference_id, spec, fewest, missing, "in the smaller group")
    alike = _equally_often(reference, candidate, singles)
    ranks = mann_whitney(*(sign * _episodes(given, clusters) for given in alike))
    means = welch(sign * one, sign * other, CONFIDENCE)
    found = unpaired_moments(sign * one, sign * other, spec.score_range)
    return Evidence(
        reference=reference_id,
        method=ranks.method,
        n=fewest,
        merged_from=_merged_from(reference, candidate, fewest) if clusters is not None else 0,
        missing=missing,
        reference_mean=float(one.mean()),
        mean=float(other.mean()),
        effect=means.effect,
        low=means.low,
        high=means.high,
        confidence=CONFIDENCE,
        bound=lower_bound(found, 1 - spec.alpha),
        p_better=ranks.gain,
        p_not_worse=p_above(found, -spec.margin) if spec.margin > 0 else ranks.gain,
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
    evidence = _of_means(reference, candidate, spec, direction, reference_id, seed)
    update: dict[str, object] = {"constraints": tuple(check_constraints(spec.constraints, reference, candidate))}
    if reference.passes is not None and candidate.passes is not None:
        counts = strict_counts(reference.passes, candidate.passes, candidate.clusters)
        update["strict_broken"], update["strict_baseline"] = counts.broken, counts.baseline
        if spec.rule == "strict":
            update["strict_false_rejections"] = false_rejection_rate(reference.passes, candidate.passes)
        if spec.must_pass is not None:
            broken = broken_must_pass(reference.passes, candidate.passes, must_pass or {}, spec.must_pass, spec.alpha)
            update["must_pass_broken"] = tuple(broken[:SHOWN])
    update["objectives"] = {
        objective.measure: _of_means(
            reference.of(objective.measure),
            candidate.of(objective.measure),
            spec.model_copy(update={"margin": objective.margin, "score_range": None}),
            objective.direction,
            reference_id,
            seed,
        )
        for objective in spec.objectives
    }
    return evidence.model_copy(update=update)


def _of_means(
    reference: TrialAnswers, candidate: TrialAnswers, spec: JudgementSpec, direction: Direction, reference_id: str, seed: int
) -> Evidence:
    singles = None
    if reference.singles is not None and candidate.singles is not None:
        singles = (reference.singles, candidate.singles)
    return compare(
        reference.means,
        candidate.means,
        candidate.weights,
        spec=spec,
        direction=direction,
        reference_id=reference_id,
        seed=seed,
        singles=singles,
        clusters=candidate.clusters,
    )


def _agreeing(found: Bounds, by_chance: SignFlip) -> Bounds:
    """Let the interval hold 0 just where the test that decides does not exclude it. Either is valid by itself, and so is asking
    the one about 0 and the other about everything else."""
    tail = (1 - CONFIDENCE) / 2
    low = max(found.low, 0.0) if by_chance.gain <= tail else min(found.low, 0.0)
    return Bounds(low, min(found.high, 0.0) if by_chance.loss <= tail else max(found.high, 0.0))


def _episodes(means: Sequence[float | None], clusters: Sequence[Hashable] | None) -> Array:
    """What was answered; samples of one cluster are one episode."""
    answered = [place for place, mean in enumerate(means) if mean is not None]
    values = np.array([means[place] for place in answered], dtype=np.float64)
    if clusters is None or not answered:
        return values
    return averaged(values, np.ones(len(values)), numbered([clusters[place] for place in answered]))


def _merged_from(reference: Sequence[float | None], candidate: Sequence[float | None], episodes: int) -> int:
    """How many samples so many episodes of the smaller group are; 0 where each is one."""
    samples = min(sum(mean is not None for mean in means) for means in (reference, candidate))
    return samples if samples > episodes else 0


def _equally_often(
    reference: Sequence[float | None], candidate: Sequence[float | None], singles: tuple[Singles, Singles] | None
) -> list[Sequence[float | None]]:
    """The means of both over the first answers to each sample, as many as the side with fewer has."""
    if singles is None:
        return [reference, candidate]
    fewest = min(max((len(given) or 1 for given in side), default=1) for side in singles)
    return [
        [
            float(np.mean(given[:fewest])) if mean is not None and len(given) > fewest else mean
            for mean, given in zip(means, side, strict=True)
        ]
        for means, side in zip((reference, candidate), singles, strict=True)
    ]


def _means(pairs: Pairs) -> dict[str, float]:
    return {
        "reference_mean": weighted_sum(pairs.shares, pairs.reference),
        "mean": weighted_sum(pairs.shares, pairs.candidate),
    }


def _refused(reference_id: str, spec: JudgementSpec, n: int, missing: int, where: str) -> Evidence:
    why = f"{n} samples {where} are too few, at least {FEWEST_SAMPLES} are needed"
    return Evidence(reference=reference_id, n=n, missing=missing, alpha=spec.alpha, margin=spec.margin, refused=why)
