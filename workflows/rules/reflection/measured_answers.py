"""What was measured of whom: every outcome of a run, by candidate and sample, whatever trial it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from workflows.model.activities.computation import StoredTrial
from workflows.model.spec.factors import Configuration
from workflows.model.trial import Purpose, Split

Place = tuple[Split, int]


@dataclass(slots=True)
class MeasuredCandidate:
    """A candidate, and its mean score on every sample that it answered."""

    candidate_id: str
    configuration: Configuration
    parents: tuple[str, ...]
    extra: Mapping[str, JsonValue]
    means: dict[Place, float] = field(default_factory=dict)
    parts: list[tuple[Split, int, int]] = field(default_factory=list)
    """Which samples its trials were on: split, first place, place after the last."""
    full: bool = False
    """It was measured on all samples that candidates are scored on."""

    @property
    def answers(self) -> int:
        return len(self.means)

    def mean(self) -> float:
        return sum(self.means.values()) / len(self.means)

    def answered(self, split: Split) -> int:
        return sum(1 for where, _ in self.means if where is split)


@dataclass(frozen=True, slots=True)
class MeasuredAnswers:
    """All candidates that answered anything, in the order of their first proposals: the baseline comes first."""

    candidates: Sequence[MeasuredCandidate]
    search: Split
    """The split that candidates are scored on."""

    @property
    def answers(self) -> int:
        """How many answers there are in all."""
        return sum(known.answers for known in self.candidates)

    def score(self, known: MeasuredCandidate) -> float:
        """The mean over what candidates are scored on."""
        scores = [score for (split, _), score in known.means.items() if split is self.search]
        return sum(scores) / len(scores) if scores else known.mean()


def evidence_of(trials: Sequence[StoredTrial], sign: float) -> MeasuredAnswers:
    """The evidence of a run's trials; with `sign` -1 lower scores are better, and everything is turned round."""
    baseline = next((trial for trial in trials if trial.purpose is Purpose.BASELINE), None)
    if baseline is None or all(mean is None for mean in baseline.sample_means):
        raise ValueError("the baseline has no answers to learn from")
    found: dict[str, MeasuredCandidate] = {}
    for trial in [baseline, *(trial for trial in trials if trial is not baseline)]:
        answered = {place: sign * mean for place, mean in enumerate(trial.sample_means) if mean is not None}
        if not answered:
            continue
        known = found.setdefault(
            trial.candidate_id,
            MeasuredCandidate(trial.candidate_id, trial.configuration, trial.parent_candidate_ids, trial.extra),
        )
        known.means |= {(trial.split, place): mean for place, mean in answered.items()}
        known.parts.append((trial.split, min(answered), max(answered) + 1))
        known.full |= trial.purpose is not Purpose.EXPLORATION and trial.status == "completed"
    return MeasuredAnswers(list(found.values()), baseline.split)
