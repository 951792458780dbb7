"""Which candidate stands as the best, and since when: strictly better wins, equal scores keep the earlier."""

from __future__ import annotations

import math

from ratchet._formats.canonical import canonical_json
from ratchet.optimizer import Direction
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Standing
from workflows.model.spec.factors import Configuration
from workflows.rules.scoring.objective_score import gain, is_better


def first_standing(candidate: Candidate, score: float) -> Standing:
    """The baseline stands as the best until something beats it."""
    return _standing(candidate, score, candidate.round, score)


def standing_after(
    best: Standing,
    candidate: Candidate,
    score: float | None,
    direction: Direction,
    min_delta: float,
    *,
    shorter_wins_ties: bool = False,
) -> Standing:
    """The best once this candidate's score is known. Gains count for `no_improvement` once they add up to `min_delta`."""
    if score is None:
        return best
    if score == best.score and shorter_wins_ties and length_of(candidate.configuration) < length_of(best.configuration):
        return _standing(candidate, score, best.since_round, best.reference_score)
    if not is_better(score, best.score, direction):
        return best
    gained = gain(score, best.reference_score, direction)
    if gained >= min_delta or math.isclose(gained, min_delta, rel_tol=1e-9):
        return _standing(candidate, score, candidate.round, score)
    return _standing(candidate, score, best.since_round, best.reference_score)


def shorter_of(best: Standing, candidate: Candidate, score: float | None) -> Standing:
    """The shorter one, whatever the scores; of two that are as long the earlier one."""
    if score is None or length_of(candidate.configuration) >= length_of(best.configuration):
        return best
    return _standing(candidate, score, candidate.round, score)


def length_of(configuration: Configuration) -> int:
    """Characters of all texts, and of lists as JSON; whatever else a configuration has, has no length."""
    texts = [value for value in configuration.values() if isinstance(value, str)]
    lists = [canonical_json(value) for value in configuration.values() if isinstance(value, list)]
    return sum(len(text) for text in [*texts, *lists])


def _standing(candidate: Candidate, score: float, since_round: int, reference_score: float) -> Standing:
    return Standing(
        candidate_id=candidate.candidate_id,
        config_hash=candidate.config_hash,
        configuration=candidate.configuration,
        score=score,
        round=candidate.round,
        since_round=since_round,
        reference_score=reference_score,
        first_replicate=candidate.first_replicate,
    )
