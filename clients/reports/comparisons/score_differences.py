"""Differences between two configurations as people read them: raw, so negative is what a run that minimizes hopes for."""

from __future__ import annotations

from dataclasses import dataclass

from clients.reports.formatting import counted, signed, telling_apart
from ratchet.optimizer import Direction
from workflows.model.spec.judgement import Evidence, JudgementSpec, Plan, Verdict

VERDICTS = {
    Verdict.BETTER: "better",
    Verdict.NOT_WORSE: "not worse",
    Verdict.WORSE: "worse",
    Verdict.INCONCLUSIVE: "inconclusive",
}


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """The mean difference over the samples that both answered, with its interval."""

    estimate: float
    low: float | None
    high: float | None
    confidence: float
    n: int


def difference_of(evidence: Evidence, direction: Direction) -> ScoreDifference:
    """Evidence tells gains; a difference is what was subtracted. Too few samples have no interval."""
    sign = 1.0 if direction is Direction.MAXIMIZE else -1.0
    if evidence.refused is not None:
        return ScoreDifference(sign * evidence.effect, None, None, evidence.confidence, evidence.n)
    low, high = sorted((sign * evidence.low, sign * evidence.high))
    return ScoreDifference(sign * evidence.effect, low, high, evidence.confidence, evidence.n)


def interval_text(difference: ScoreDifference) -> str:
    """`95% CI +0.03…+0.21`"""
    if difference.low is None or difference.high is None:
        return f"no interval from {counted(difference.n, 'sample')}"
    return f"{difference.confidence:.0%} CI {signed(difference.low)}…{signed(difference.high)}"


def difference_text(difference: ScoreDifference) -> str:
    """`+0.12, 95% CI +0.03…+0.21`"""
    return f"{signed(difference.estimate)}, {interval_text(difference)}"


_COVERED = {
    "candidate": "of candidates, each judged by itself",
    "round": "of rounds, over all candidates of one",
    "run": "of runs, over all rounds and candidates",
}


def error_rate_text(spec: JudgementSpec) -> str:
    """What verdicts promise: `a claim is wrong in at most 5% of rounds, over all candidates of one`."""
    return f"a claim is wrong in at most {spec.alpha * 100:.3g}% {_COVERED[spec.holds_for]}"


def plan_text(plan: Plan, spec: JudgementSpec) -> str:
    """What the run can find out, in a line."""
    if spec.rule == "non_inferiority":
        margin = plan.margin if plan.confirmable is None else max(plan.margin, plan.confirmable)
        return f"losses of less than {telling_apart(margin)[0]} are excluded in {plan.power:.0%} of cases"
    if not plan.finds_any:
        return f"no gain, however large, is found in {plan.power:.0%} of cases"
    if plan.confirmable is None:
        return f"gains from {signed(plan.detectable, 3)} are found in {plan.power:.0%} of cases"
    return f"gains from {signed(plan.confirmable, 3)} are confirmed in {plan.power:.0%} of cases"
