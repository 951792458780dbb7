"""What a run can find out: before anything is measured as far as that can be said, and once the noise is known."""

from __future__ import annotations

from collections.abc import Sequence

from workflows.model.spec.judgement import JudgementSpec, Noise, Plan
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import Planning
from workflows.rules.spec.default_splits import told_of_confirmation
from workflows.rules.statistics.noise import design, estimate_noise, plan

AT_WORST = 0.25
"""The variance of a score between 0 and 1 that is one or the other by the toss of a coin."""


def assumed_plan(request: OptimizationRequest, samples: int, held_back: int | None = None) -> Plan:
    """What is said before anything is known: as if every answer were right or wrong by the toss of a coin. With
    `held_back`, how many samples are, also how the winner is confirmed where none are."""
    spec, noise = request.judgement, request.noise_first
    reach = spec.score_range or 1.0
    coin = Noise(samples=0, replicates=1.0, mean=reach / 2, within=AT_WORST * reach**2, between=0.0)
    found = plan(
        coin,
        samples=samples,
        replicates=request.design(samples).replicates,
        spec=spec,
        comparisons=request.optimizer.candidates_per_round,
        power=noise.power if noise else 0.8,
    )
    found = _confirmed(found, coin, held_back or 0, spec)
    confirmed = None if held_back is None else told_of_confirmation(request, held_back)
    words = [f"if every answer were a toss of a coin, scored 0 or {reach:g}: {found.words}", confirmed]
    return found.model_copy(update={"words": "; ".join(filter(None, words))})


def measured_plan(noise: Noise, asked: Planning, spec: JudgementSpec) -> Plan:
    """What the run can find out, given how much the baseline's scores vary; where the spec leaves it open, with what design."""
    if asked.replicates is None:
        found = design(
            noise,
            available=asked.available,
            spec=spec,
            comparisons=asked.comparisons,
            power=asked.power,
            most_calls=asked.available * asked.most_replicates,
        )
    else:
        found = plan(
            noise,
            samples=asked.available,
            replicates=asked.replicates,
            spec=spec,
            comparisons=asked.comparisons,
            power=asked.power,
        )
    found = _confirmed(found, noise, asked.held_back, spec)
    noisy = f"{noise.noisy_samples} of {noise.samples} samples vary when they are answered again: "
    return found.model_copy(update={"words": noisy + found.words})


def _confirmed(found: Plan, noise: Noise, held_back: int, spec: JudgementSpec) -> Plan:
    """The same, with what the held-back samples can confirm of it: one winner, on as many samples as there are of these."""
    if not held_back:
        return found
    again = plan(noise, samples=held_back, replicates=found.replicates, spec=spec, power=found.power)
    if spec.rule == "non_inferiority":
        reach, told, finds = again.margin, f"at a margin of {again.margin:.3f}", True
    else:
        reach, told, finds = again.detectable, f"from {again.detectable:.3f}", again.finds_any
    on = f"{held_back} held-back sample{'' if held_back == 1 else 's'}"
    told = f"confirmed on the {on} {told}" if finds else f"{on} can confirm none"
    words = f"{found.words}; {told}"
    return found.model_copy(update={"confirmable": reach, "finds_any": found.finds_any and finds, "words": words})


def plan_at_baseline(
    means: Sequence[float | None], singles: Sequence[Sequence[float]], asked: Planning, spec: JudgementSpec
) -> tuple[Plan | None, Plan | None]:
    """What the baseline's scores say of what can be found out: as it is told, and at best.

    `means` are the samples' scores, `singles` those of their answers where there are several. The first plan is None where
    nothing better is known than what was said before. Answered once each, the samples differ at least as much as the answers
    to one of them would: that bounds the noise, and is told of scores that do not lie between 0 and 1, of which nothing was
    known. At best, nothing varies but what a candidate changes.
    """
    if asked.known is not None:
        return None, asked.known
    scores = [mean for mean in means if mean is not None]
    if len(scores) < 2:
        return None, None
    bounded = spec.score_range is not None or (min(scores) >= 0 and max(scores) <= 1)
    in_units = spec if bounded else spec.model_copy(update={"score_range": _reach_of(scores)})
    if any(singles):
        several = [single or [mean] for single, mean in zip(singles, means, strict=True) if mean is not None]
        found = measured_plan(estimate_noise(several), asked, in_units)
        return found, found
    noise = estimate_noise([[score] for score in scores])
    if bounded:
        return None, measured_plan(noise, asked, in_units)
    found = measured_plan(noise.model_copy(update={"within": estimate_noise([scores]).within}), asked, in_units)
    told = found.words.partition(": ")[2]
    return found.model_copy(update={"words": f"if answers varied as much as samples do: {told}"}), found


def _reach_of(scores: Sequence[float]) -> float:
    """How far scores that may be anything can be apart, for all that is known."""
    return max(max(scores) - min(scores), *(abs(score) for score in scores)) or 1.0
