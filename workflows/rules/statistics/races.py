"""Racing: whether a trial goes on after a block of samples, or more samples would not change the decision.

A look predicts where the mean gain over all planned samples will lie. When the whole of that interval leads to the same
decision, the trial stops. `Racing.error_rate` is how often a decision differs from that of the full trial, at most, over all
looks of a trial and whatever the candidate is worth.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from scipy.special import ndtr, stdtrit

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import JudgementSpec, RaceDecision, Racing
from workflows.rules.decisions.verdicts import ALONE, FEWEST_SAMPLES, Family
from workflows.rules.statistics.answer_permutation import variance_of_answers
from workflows.rules.statistics.curtailment import boundary
from workflows.rules.statistics.gain_pairs import Singles, pair
from workflows.rules.statistics.mean_test import SAMPLES_HELD_BACK, Bounds, Moments, least_variance, moments

HALVINGS = 40


class Wanted(NamedTuple):
    """What the mean gain over all samples must reach for the candidate to be accepted, as far as can be said before."""

    at_least: float
    """Below it, acceptance is out of the question."""
    for_certain: float
    """Above it, acceptance is certain, however many candidates are judged together."""
    words: str


class RaceProgress(NamedTuple):
    """How far a trial is, in what counts by itself."""

    seen: int
    planned: int
    of_what: str


def looks(planned: int, block: int) -> int:
    """How often a trial is looked at before its end."""
    return max(0, math.ceil(planned / block) - 1)


def race(
    reference: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    planned: int,
    spec: JudgementSpec,
    weights: Sequence[float] | None = None,
    direction: Direction = Direction.MAXIMIZE,
    reference_id: str = "the baseline",
    candidates: int = 1,
    family: Family = ALONE,
    min_gain: float = 0.0,
    strict_broken: int = 0,
    singles: tuple[Singles, Singles] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> RaceDecision:
    """Whether a trial goes on, after the samples measured so far, in the order of the suite, of `planned` in all.

    `candidates` are judged together in this round, `family` is what else is claimed beside it; `min_gain` is what a better
    score must gain (`stop.min_delta`);
    `strict_broken` samples were always passed by the reference and not by the candidate, which ends it under the strict rule.
    `clusters` are those of all planned samples: what counts is how many of them are seen, and those of which samples are still
    to come do not count yet.
    """
    racing, seen = spec.racing or Racing(), len(reference)
    candidates = 1 if spec.correction == "none" else candidates
    progress = _progress(seen, planned, clusters)
    counted = candidate if clusters is None else _counted(candidate, clusters)
    of_seen = None if clusters is None else clusters[:seen]
    pairs = pair(reference, counted, weights, direction, singles=singles, clusters=of_seen)
    spec = spec.model_copy(update={"alpha": spec.alpha * family.share})
    asked = _asked(spec)
    if asked == "strict" and strict_broken and seen < planned:
        return _broken(strict_broken, pairs.n, planned, reference_id)
    if asked == "strict" or seen >= planned or pairs.n < FEWEST_SAMPLES or pairs.n <= SAMPLES_HELD_BACK:
        return RaceDecision(go_on=True, samples=pairs.n, planned=progress.planned, effect=pairs.effect if pairs.n else 0.0)
    found = moments(pairs, spec.score_range)
    found = replace(found, variance=max(found.variance, variance_of_answers(pairs)))
    full = pairs.n * progress.planned / progress.seen
    expected = _expected(found, full, boundary(looks(planned, racing.block), racing.error_rate))
    wanted = _wanted(found, full, spec, candidates, min_gain)
    reason = _reason(expected, wanted, found, full, spec, racing, candidates * family.chosen_from)
    return RaceDecision(
        go_on=reason is None,
        reason=reason,
        words="" if reason is None else _words(reason, expected, wanted, found, progress, reference_id, racing),
        samples=pairs.n,
        planned=progress.planned,
        effect=found.mean,
        low=expected.low,
        high=expected.high,
    )


def _progress(seen: int, planned: int, clusters: Sequence[Hashable] | None) -> RaceProgress:
    if clusters is None:
        return RaceProgress(seen, planned, "samples")
    if len(clusters) != planned:
        raise ValueError(f"{len(clusters)} samples say to which cluster they belong, and {planned} are planned")
    return RaceProgress(len(set(clusters[:seen]) - set(clusters[seen:])), len(set(clusters)), "clusters of samples")


def _counted(candidate: Sequence[float | None], clusters: Sequence[Hashable]) -> list[float | None]:
    """The candidate's means, without those in clusters that are not over."""
    to_come = set(clusters[len(candidate) :])
    return [None if cluster in to_come else mean for mean, cluster in zip(candidate, clusters, strict=False)]


def _asked(spec: JudgementSpec) -> Literal["score", "better", "not_worse", "strict"]:
    """What a candidate must show to be accepted in the search."""
    if spec.accept in ("score", "better"):
        return spec.accept
    if spec.rule == "strict":
        return "strict"
    return "better" if spec.accept == "shorter" and spec.rule == "improvement" else "not_worse"


def _expected(found: Moments, full: float, z: float) -> Bounds:
    """Where the mean over all samples will lie."""
    quantile = float(stdtrit(found.n - 1, ndtr(z)))
    effective = 1 / (1 / found.n - 1 / full)
    turned = replace(found, mean=-found.mean)
    return Bounds(_lowest(found, quantile, effective), -_lowest(turned, quantile, effective))


def _lowest(found: Moments, quantile: float, effective: float) -> float:
    """Going down from the mean so far, the first value that is too far away to be expected."""
    inner, outer = found.mean, found.mean - 2 * found.reach - quantile * math.sqrt(found.variance / effective)
    for _ in range(HALVINGS):
        middle = (inner + outer) / 2
        variance = max(found.variance, least_variance(middle, found.reach))
        too_far = found.mean - middle > quantile * math.sqrt(variance / effective)
        inner, outer = (inner, middle) if too_far else (middle, outer)
    return (inner + outer) / 2


def _wanted(found: Moments, full: float, spec: JudgementSpec, candidates: int, min_gain: float) -> Wanted:
    if _asked(spec) == "score":
        return Wanted(min_gain, min_gain, f"more than {min_gain:+.3f} is needed for a better score")
    if _asked(spec) == "better":
        once, corrected = (_least_gain(found, full, alpha) for alpha in (spec.alpha, spec.alpha / candidates))
        return Wanted(once, corrected, f"{once:+.3f} is needed to be called better")
    error = math.sqrt(max(found.variance, least_variance(spec.margin, found.reach)) * full) / max(full - SAMPLES_HELD_BACK, 1.0)
    once, corrected = (_quantile(full, alpha) * error - spec.margin for alpha in (spec.alpha, spec.alpha / candidates))
    return Wanted(once, corrected, f"{once:+.3f} is needed to be called not worse by {spec.margin:g}")


def _least_gain(found: Moments, full: float, alpha: float) -> float:
    """Gains that hardly varied so far will vary at least as a mean gain of that size does."""
    quantile = _quantile(full, alpha)
    return max(quantile * math.sqrt(found.variance / full), quantile**2 * found.reach / (full + quantile**2))


def _quantile(samples: float, alpha: float) -> float:
    return float(stdtrit(max(samples - 1, 1.0), 1 - alpha))


def _reason(
    expected: Bounds, wanted: Wanted, found: Moments, full: float, spec: JudgementSpec, racing: Racing, compared: int
) -> Literal["futility", "regression", "win"] | None:
    if expected.high < wanted.at_least:
        loss = spec.margin if _asked(spec) == "not_worse" else _least_gain(found, full, spec.alpha / compared)
        return "regression" if expected.high < -loss else "futility"
    return "win" if racing.wins and expected.low > wanted.for_certain else None


_TOLD = {
    "futility": "futile",
    "regression": "certainly worse",
    "win": "certainly good enough",
}


def _words(
    reason: str, expected: Bounds, wanted: Wanted, found: Moments, progress: RaceProgress, reference_id: str, racing: Racing
) -> str:
    return (
        f"{_TOLD[reason]} after {found.n} of {progress.planned} {progress.of_what}: "
        f"gain over {reference_id} so far {found.mean:+.3f}, over all samples "
        f"between {expected.low:+.3f} and {expected.high:+.3f}, and {wanted.words} "
        f"(full evaluation would decide otherwise in at most {racing.error_rate:.0%} of trials)"
    )


def _broken(samples: int, seen: int, planned: int, reference_id: str) -> RaceDecision:
    told = (
        f"{samples} samples that {reference_id} always passes failed"
        if samples > 1
        else f"a sample that {reference_id} always passes failed"
    )
    words = f"certainly rejected after {seen} of {planned} samples: {told}, and the strict rule tolerates none"
    return RaceDecision(go_on=False, reason="regression", words=words, samples=seen, planned=planned)
