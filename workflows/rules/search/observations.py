"""What samplers learn from: the trials that are stored, as losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from workflows.model.activities.computation import StoredTrial
from workflows.model.spec.factors import Configuration
from workflows.model.trial import SEARCHING, Purpose
from workflows.rules.search.space import Space

BEST, NEWEST = 100, 100
"""So many trials of each kind are told to a sampler, and the baseline: what a suggestion costs does not grow with the run."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured configuration."""

    values: Configuration
    """Of the searched factors, with what does not count at its initial value."""
    loss: float | None
    """The lower the better; None where the trial failed."""


def told_of(trials: Sequence[StoredTrial], space: Space, *, maximize: bool) -> list[Observation]:
    """All that can be learned from the trials, in their order."""
    return [_told(trial, space, maximize) for trial in trials if _counts(trial)]


def bounded(trials: Sequence[StoredTrial], *, maximize: bool) -> Sequence[StoredTrial]:
    """The first (the baseline), the best and the newest, in their order."""
    searched = [trial for trial in trials if _counts(trial)]
    if len(searched) <= BEST + NEWEST:
        return searched
    sign = -1.0 if maximize else 1.0
    scored = [(sign * trial.score, place) for place, trial in enumerate(searched) if trial.score is not None]
    best = [place for _, place in nsmallest(BEST, scored)]
    kept = {0, *best, *range(len(searched) - NEWEST, len(searched))}
    return [searched[place] for place in sorted(kept)]


def _counts(trial: StoredTrial) -> bool:
    """Explorations measure something else; a trial that was cut off says nothing."""
    searched = trial.purpose in SEARCHING or trial.purpose is Purpose.BASELINE
    return searched and trial.status in ("completed", "failed", "timeout")


def _told(trial: StoredTrial, space: Space, maximize: bool) -> Observation:
    score = trial.score if trial.status == "completed" else None
    loss = None if score is None else -score if maximize else score
    return Observation(space.settled(trial.configuration), loss)


def penalized(told: Sequence[Observation]) -> list[float]:
    """The losses, with failed trials at the worst loss that was measured."""
    worst = max((one.loss for one in told if one.loss is not None), default=0.0)
    return [worst if one.loss is None else one.loss for one in told]
