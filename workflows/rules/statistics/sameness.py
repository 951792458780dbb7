"""Whether a target that was asked again only repeated itself: then its answers are no second look at anything."""

from __future__ import annotations

from collections.abc import Iterator

from workflows.rules.statistics.trial_answers import TrialAnswers


def answered_alike(before: TrialAnswers, afresh: TrialAnswers) -> bool:
    """Whether every answer to a sample, old and new, scored the same; False where nothing was answered in both."""
    compared = list(_scores(before, afresh))
    return bool(compared) and all(len(scores) == 1 for scores in compared)


def _scores(before: TrialAnswers, afresh: TrialAnswers) -> Iterator[set[float]]:
    """Of every sample that was answered both times."""
    for place, (one, other) in enumerate(zip(before.means, afresh.means, strict=False)):
        if one is not None and other is not None:
            yield {*_of_sample(before, place, one), *_of_sample(afresh, place, other)}


def _of_sample(trial: TrialAnswers, place: int, mean: float) -> list[float]:
    given = trial.singles[place] if trial.singles is not None else ()
    return list(given) or [mean]
