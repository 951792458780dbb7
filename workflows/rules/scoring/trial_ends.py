"""How a trial's end is told, and when what it measured is too little to be compared."""

from __future__ import annotations

from workflows.model.spec.judgement import RaceDecision
from workflows.model.trial import Conclusion, Purpose, most_failed_scores
from workflows.rules.scoring.error_counts import told
from workflows.rules.scoring.objective_score import TrialStatistics

MOSTLY_FAILED = 0.5
"""A baseline of which more than this share of answers failed measures nothing but a mistake in the set-up."""


def measured_too_little(conclusion: Conclusion, facts: TrialStatistics) -> str | None:
    """Why a trial is not compared, where too few of its samples have an answer."""
    trial = conclusion.trial
    wanted = conclusion.samples * trial.replicates
    if facts.coverage + facts.unscored / max(wanted, 1) >= trial.min_coverage:
        return None
    why = f"; errors: {told(facts.summary.errors)}" if facts.summary.errors else ""
    why += f"; first error: {conclusion.error}" if conclusion.error else ""
    return (
        f"only {facts.outcomes} of {wanted} samples have an answer ({facts.coverage:.1%}), "
        f"at least {trial.min_coverage:.1%} are needed{why}"
    )


def scored_too_little(conclusion: Conclusion, facts: TrialStatistics, first_error: str | None) -> str | None:
    """Why a trial's scoring counts as failed, where scorers failed on more of its answers than they may."""
    trial, answered = conclusion.trial, facts.outcomes + facts.unscored
    allowed = most_failed_scores(trial.max_failed_scores, conclusion.samples * trial.replicates)
    if facts.unscored <= allowed and (facts.outcomes or not facts.unscored):
        return None
    told = f"scorers failed on {facts.unscored} of {answered} answers, execution.max_failed_scores allows {allowed}"
    return f"{told}; first: {first_error}"


def mostly_failed(conclusion: Conclusion, failed: int, answers: int) -> bool:
    """Whether a baseline measured nothing but a mistake in the set-up."""
    purposes = (Purpose.BASELINE, Purpose.NOISE)
    return conclusion.trial.purpose in purposes and failed > MOSTLY_FAILED * answers


def race_over(conclusion: Conclusion) -> RaceDecision | None:
    """The look that ended the trial's race."""
    return conclusion.looks[-1] if conclusion.looks and not conclusion.looks[-1].go_on else None


def stopped_early(conclusion: Conclusion, facts: TrialStatistics) -> str | None:
    """A trial that the budget did not cover says so; one that is measured too little for that is not compared."""
    over = race_over(conclusion)
    if over is not None:
        return over.words
    if conclusion.exhausted is None:
        return None
    wanted = conclusion.samples * conclusion.trial.replicates
    told = f"{facts.outcomes} of {wanted} samples have an answer"
    whose = "" if conclusion.team_rest is None else f" ({conclusion.team_rest.words})"
    return f"the {conclusion.exhausted} budget is exhausted{whose}: {told}"
