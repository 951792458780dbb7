"""Differences between two configurations as people read them: raw, so negative is what a run that minimizes hopes for."""

from __future__ import annotations

from dataclasses import dataclass

from clients.reports.formatting import signed, telling_apart
from ratchet.optimizer import Direction
from workflows.model.run.contract import Confirmation
from workflows.model.spec.judgement import Evidence, JudgementSpec, Plan, Verdict
from workflows.rules.decisions.sentences import WHERE_CONFIRMED

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
    """`+0.12, 95% CI +0.03…+0.21`"""
    if difference.low is None or difference.high is None:
        return f"{signed(difference.estimate)}, no interval from {difference.n} sample{'' if difference.n == 1 else 's'}"
    return f"{signed(difference.estimate)}, {difference.confidence:.0%} CI {signed(difference.low)}…{signed(difference.high)}"


def confirmation_text(confirmation: Confirmation, direction: Direction) -> str:
    """The figure from the untouched split: `0.81 → 0.93 (+0.12, 95% CI +0.03…+0.21): better`."""
    if confirmation.refused is not None:
        judged_nothing = confirmation.winner_score is not None
        return f"{'no verdict' if judged_nothing else 'not measured'}: {confirmation.refused}"
    before, after, judged = confirmation.baseline_score, confirmation.winner_score, confirmation.judged
    if before is None or after is None:
        pairs = (("baseline", before), ("best", after))
        measured = [f"{name} {telling_apart(score)[0]}" for name, score in pairs if score is not None]
        return f"not measured in full ({', '.join(measured) or 'no trial completed'})"
    texts = telling_apart(before, after)
    if judged is None:
        return f"{texts[0]} (the baseline itself)" if before == after else f"{texts[0]} → {texts[1]}"
    return f"{texts[0]} → {texts[1]} ({interval_text(difference_of(judged.evidence, direction))}): {VERDICTS[judged.verdict]}"


def confirmed_text(confirmation: Confirmation, direction: Direction) -> str:
    """The verdict first: `better, on held-back samples: 0.81 → 0.93 (+0.12, 95% CI +0.03…+0.21)`."""
    figures, judged = confirmation_text(confirmation, direction), confirmation.judged
    if judged is None:
        return figures
    verdict = VERDICTS[judged.verdict]
    where = WHERE_CONFIRMED[confirmation.how]
    return f"{verdict}, {where}: {figures.removesuffix(f': {verdict}')}"


def optimism_text(confirmation: Confirmation) -> str:
    """How far the search's own figure is from the confirmed one; nothing when nothing was confirmed."""
    if confirmation.promised is None or confirmation.optimism is None:
        return ""
    more = "more" if confirmation.optimism >= 0 else "less"
    apart = signed(abs(confirmation.optimism))[1:]
    return f"the search promised {signed(confirmation.promised)}, {apart} {more} than was confirmed"


def caution_text(confirmation: Confirmation) -> str:
    """Who has seen the held-back samples before, where somebody has."""
    told = []
    if confirmation.readers:
        told.append(f"runs that were confirmed on these samples before: {confirmation.readers:,}")
    if confirmation.searched:
        told.append(f"samples of these that other runs searched on: {confirmation.searched:,}")
    return "; ".join(told)


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
        return f"losses of less than {telling_apart(plan.margin)[0]} are excluded in {plan.power:.0%} of cases"
    return f"gains from {signed(plan.detectable, 3)} are found in {plan.power:.0%} of cases"
