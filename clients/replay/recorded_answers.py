"""What an exported file holds of single answers, as judgement reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clients.reports.facts import Answers, Iteration, SplitSamples, Statistics
from workflows.rules.statistics import TrialAnswers

NO_MEANS = "scores and comparisons: the file was exported without the scores of single samples"

Values = Mapping[str, Sequence[Sequence[float]]]


def read_for_judgement(trial: Iteration, drawn: SplitSamples, samples: int | None) -> TrialAnswers | None:
    """The answers to the first samples of a trial, or to all; None where the file has none."""
    told = trial.answers
    if told is None or trial.sample_means is None:
        return None
    means = list(trial.sample_means[:samples])
    return TrialAnswers(
        means=means,
        weights=list(drawn.weights[:samples]) if drawn.weights is not None else None,
        passes=list(told.passes[:samples]) if told.passes is not None else None,
        singles=singles_of(trial, len(means)),
        clusters=clusters_of(drawn, len(means)),
        measures={name: _single(values[:samples]) for name, values in told.measures.items()},
    )


def singles_of(trial: Iteration, samples: int) -> Sequence[Sequence[float]]:
    """The scores of single answers to the first samples, as far as the file has them."""
    told = trial.answers.scores if trial.answers is not None else None
    return told[:samples] if told is not None else [()] * samples


def lacks_single_scores(one: Iteration, other: Iteration) -> bool:
    """Whether two trials cannot be compared, because one answered more often and the file does not say how."""
    unknown = [trial.replicates > 1 and (trial.answers is None or trial.answers.scores is None) for trial in (one, other)]
    return one.replicates != other.replicates and any(unknown)


def clusters_of(drawn: SplitSamples, samples: int) -> list[int] | None:
    """For every sample the place of the first one that it counts as one with; None where each counts by itself."""
    return [drawn.same_as.get(place, place) for place in range(samples)] if drawn.same_as else None


def _single(of_samples: Sequence[Sequence[float]]) -> list[tuple[int, float]]:
    return [(place, value) for place, values in enumerate(of_samples) for value in values]


def figures_of(told: Statistics, answers: Answers | None, until: int) -> Statistics:
    """The figures of a trial, as far as they follow from its answers to samples before a place."""
    if answers is None:
        return told
    values = {name: [one for given in found[:until] for one in given] for name, found in answers.measures.items()}
    update: dict[str, float | None] = {}
    if "cost" in values:
        update["total_cost"] = math.fsum(values["cost"])
    if "tokens" in values:
        update["total_tokens"] = int(math.fsum(values["tokens"]))
    if "latency_ms" in values:
        given = values["latency_ms"]
        update["mean_latency_ms"] = math.fsum(given) / len(given) if given else None
    if answers.passes is not None:
        answered = sum(count for _, count in answers.passes[:until])
        update["failure_count"] = answered - told.success_count
    return told.model_copy(update=update)
