"""Why a candidate was kept, dropped or stopped early: the one place where these sentences are made."""

from __future__ import annotations

from workflows.model.failures import shorten, without_traceback
from workflows.model.run.contract import Standing
from workflows.model.run.run_result import Confirmation
from workflows.model.spec.judgement import Judged
from workflows.model.trial import TrialResult

ABOUT_BASELINE = "the baseline: score {score:.4g} on {answers} answers"

WHERE_CONFIRMED = {
    "test_split": "on held-back samples",
    "fresh_answers": "with fresh answers to the same samples",
    "cross_fitting": "by cross-fitting on the samples of the search",
}

NOTHING_HOLDS = "no improvement was found that holds"

_UNMEASURED = {"failed": "failed", "cancelled": "cancelled", "timeout": "out of time"}


LONGEST = 500
"""Characters of a sentence: errors and the names of samples are other people's."""


def kept(result: TrialResult, before: Standing, judged: Judged | None, *, shorter: bool = False) -> str:
    """It is the new best."""
    score = result.objective_score
    if shorter:
        first = f"kept: shorter than {before.candidate_id}, score {score:.4g} after {before.score:.4g}"
    elif score == before.score:
        first = f"kept: the same score {score:.4g} as {before.candidate_id}, with shorter texts"
    else:
        first = f"kept: score {score:.4g} beats {before.score:.4g} of {before.candidate_id}"
    return _with_evidence(first, judged)


def dropped(result: TrialResult, obstacle: str | None, best: Standing, judged: Judged | None) -> str:
    """It was measured, and did not become the best."""
    if result.race is not None and result.race.reason != "win":
        return shorten(f"dropped: {obstacle}", LONGEST)
    if obstacle is not None:
        return _with_evidence(f"dropped: {obstacle} (score {result.objective_score:.4g})", judged)
    if result.race is not None:
        return _with_evidence(f"dropped: {best.candidate_id} gained more", judged)
    first = f"dropped: score {result.objective_score:.4g} does not beat {best.score:.4g} of {best.candidate_id}"
    return _with_evidence(first, judged)


def on_confirmation(confirmation: Confirmation) -> str:
    """What the held-back samples say of the winner."""
    if confirmation.refused is not None:
        return f"not confirmed: {confirmation.refused}"
    judged = confirmation.judged
    where = WHERE_CONFIRMED[confirmation.how]
    if judged is None:
        if None in (confirmation.baseline_score, confirmation.winner_score):
            return f"not confirmed: not every trial {where} completed"
        return f"the baseline itself is the best: score {confirmation.baseline_score:.4g} {where}"
    told = f"{'confirmed' if confirmation.holds else 'not confirmed'} {where}: {judged.explanation}"
    if confirmation.promised is not None and confirmation.optimism is not None:
        told += f"; the search had promised {confirmation.promised:+.3f}, {_more_or_less(confirmation.optimism)} than that"
    return told


def _more_or_less(optimism: float) -> str:
    return f"{abs(optimism):.3f} {'more' if optimism >= 0 else 'less'}"


def not_measured(result: TrialResult) -> str:
    """Its trial did not complete."""
    why = result.error or result.stopped_early
    said = f": {without_traceback(why)}" if why else ""
    return shorten(f"{_UNMEASURED.get(result.status, result.status)}{said}", LONGEST)


def _with_evidence(first: str, judged: Judged | None) -> str:
    return shorten(f"{first}; {judged.explanation}" if judged is not None else first, LONGEST)
