"""Several scorers as one: all of them, any of them, or their mean by weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

from activities.scorers.grades import Grade
from ratchet import Score
from workflows.model.spec.scorers.combinations import CombinedScorer
from workflows.rules.scoring.objective_score import weighted_mean

Member = tuple[float, Grade]
"""A member's weight, and a grade it gave."""


def combined(scorer: CombinedScorer, members: Sequence[Member]) -> Grade:
    """One grade of the members', with what is wrong by those that did not pass."""
    scores = [grade.score for _, grade in members]
    passed = [bool(score.passed) for score in scores]
    match scorer.kind:
        case "all_of":
            value = float(all(passed))
        case "any_of":
            value = float(any(passed))
        case "mean_of":
            value = weighted_mean([(weight, grade.score.value) for weight, grade in members])
    told = [score for score in scores if score.reason and (scorer.kind == "mean_of" or not score.passed)]
    satisfied = scorer.kind == "any_of" and any(passed)
    reason = None if satisfied else "; ".join(f"{score.name}: {score.reason}" for score in told) or None
    return Grade(
        Score(scorer.score_name, value, reason=reason),
        tokens=sum(grade.tokens for _, grade in members),
        cost=math.fsum(grade.cost for _, grade in members),
        cached_tokens=sum(grade.cached_tokens for _, grade in members),
    )
