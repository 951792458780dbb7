"""Scores that targets give their own answers."""

from __future__ import annotations

from collections.abc import Mapping

from activities.scorers.grades import Grade
from activities.targets.faults import CandidateFault
from ratchet import Output, Sample, Score
from ratchet._formats.canonical import LARGEST_NUMBER
from workflows.model.failures import shorten
from workflows.model.spec.scorers.reported import ReportedScorer

NO_SCORE = "no score"


def reported(scorer: ReportedScorer, output: Output, sample: Sample) -> Grade:
    """The score of that name. An answer that comes without it, or with no finite number, is the target's fault."""
    scores = output.scores if isinstance(output.scores, Mapping) else {}
    if scorer.reported_name not in scores:
        known = shorten(", ".join(map(str, scores)), 300) or "no scores at all"
        raise CandidateFault(
            f"scorer {scorer.score_name!r}: the target gave no score {scorer.reported_name!r}, but {known}", kind=NO_SCORE
        )
    given = scores[scorer.reported_name]
    told = given if isinstance(given, Mapping) else {"value": given}
    value = told.get("value")
    if not isinstance(value, int | float) or not abs(value) <= LARGEST_NUMBER:
        raise CandidateFault(
            f"scorer {scorer.score_name!r}: the target gave {shorten(repr(value), 200)} as score {scorer.reported_name!r}; "
            "give a finite number",
            kind=NO_SCORE,
        )
    return Grade(Score(scorer.score_name, value, told.get("passed"), told.get("reason")))
