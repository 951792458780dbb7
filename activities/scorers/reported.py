"""Scores that targets give their own answers."""

from __future__ import annotations

from collections.abc import Mapping

from activities.scorers.grades import Grade
from ratchet import Output, Sample, Score
from workflows.model.failures import shorten
from workflows.model.scorers import ReportedScorer
from workflows.rules.scoring import ScoringFailed


def reported(scorer: ReportedScorer, output: Output, sample: Sample) -> Grade:
    """The score of that name, checked later like any other."""
    scores = output.scores or {}
    if scorer.reported_name not in scores:
        known = shorten(", ".join(map(str, scores)), 300) or "no scores at all"
        raise ScoringFailed(f"scorer {scorer.score_name!r}: the target gave no score {scorer.reported_name!r}, but {known}")
    given = scores[scorer.reported_name]
    if not isinstance(given, Mapping):
        return Grade(Score(scorer.score_name, given))
    return Grade(Score(scorer.score_name, given.get("value"), given.get("passed"), given.get("reason")))  # type: ignore[arg-type]
