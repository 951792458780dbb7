"""A round's decision: what each candidate's evidence says, which of them becomes the best, and why, in one sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ratchet.optimizer import Direction
from workflows.model.candidates import Candidate
from workflows.model.decisions import Decision, FrontMember
from workflows.model.judgement import Evidence, Judged, JudgementSpec, Verdict
from workflows.model.run import Standing
from workflows.model.trial import TrialResult
from workflows.rules.explaining import ABOUT_BASELINE, dropped, kept, not_measured
from workflows.rules.scoring import is_better
from workflows.rules.standing import standing_after
from workflows.rules.verdicts import judge, pareto_front

LARGEST_FRONT = 100
"""Candidates on a front; a run with more of them keeps those that came first."""

_ENOUGH = {"better": {Verdict.BETTER}, "not_worse": {Verdict.BETTER, Verdict.NOT_WORSE}}


@dataclass(frozen=True, slots=True)
class Rules:
    """What the spec says about becoming the best."""

    judgement: JudgementSpec
    direction: Direction
    min_delta: float = 0.0
    shorter_wins_ties: bool = False


def decided_against(spec: JudgementSpec, baseline_id: str, best_id: str) -> str:
    """The candidate that a round is judged against.

    The best so far, which candidates want to beat; but whoever only must not be worse is compared with the baseline, or small
    losses would add up.
    """
    return baseline_id if spec.rule != "improvement" or spec.accept == "not_worse" else best_id


def decide_round(
    best: Standing, baseline_id: str, candidates: Sequence[Candidate], results: Sequence[TrialResult], rules: Rules
) -> tuple[Standing, list[Decision]]:
    """Judge a round's candidates together, and let the best of those that may stand stand."""
    reference = decided_against(rules.judgement, baseline_id, best.candidate_id)
    judged = _judged(results, reference, rules.judgement)
    winner = best
    for candidate, result in zip(candidates, results, strict=True):
        if not _obstacle(result, judged.get(candidate.candidate_id), rules.judgement):
            winner = _standing_after(winner, candidate, result, rules)
    decisions = [
        _decision(candidate, result, judged.get(candidate.candidate_id), best, winner, rules)
        for candidate, result in zip(candidates, results, strict=True)
    ]
    return winner, decisions


def decision_on_baseline(candidate: Candidate, result: TrialResult) -> Decision:
    """The baseline stands as the best until something beats it."""
    if result.objective_score is None:
        return Decision(candidate_id=candidate.candidate_id, explanation=not_measured(result))
    told = ABOUT_BASELINE.format(score=result.objective_score, answers=result.summary.total)
    return Decision(candidate_id=candidate.candidate_id, kept=True, explanation=told)


def _judged(results: Sequence[TrialResult], reference: str, spec: JudgementSpec) -> dict[str, Judged]:
    """The verdicts, by candidate: of all that were measured, together."""
    found = {
        result.candidate_id: evidence for result in results if (evidence := evidence_against(result, reference)) is not None
    }
    return dict(zip(found, judge(list(found.values()), spec), strict=True))


def evidence_against(result: TrialResult, reference: str) -> Evidence | None:
    """What a trial's comparison with one candidate found."""
    return next((evidence for evidence in result.evidence if evidence.reference == reference), None)


def _obstacle(result: TrialResult, judged: Judged | None, spec: JudgementSpec) -> str | None:
    """Why a candidate may not become the best, whatever its score."""
    if result.status != "completed" or result.objective_score is None:
        return not_measured(result)
    if result.race is not None and result.race.reason in ("futility", "regression"):
        return f"stopped early for {result.race.reason}: {result.race.words}"
    if judged is None:
        return None
    if judged.evidence.must_pass_broken or any(not check.holds for check in judged.evidence.constraints):
        return "it breaks what every candidate must keep"
    wanted = _ENOUGH.get(spec.accept)
    if wanted is not None and judged.verdict not in wanted:
        return f"judgement.accept asks for the verdict {spec.accept}"
    return None


def _standing_after(best: Standing, candidate: Candidate, result: TrialResult, rules: Rules) -> Standing:
    return standing_after(
        best,
        candidate,
        result.objective_score,
        rules.direction,
        rules.min_delta,
        shorter_wins_ties=rules.shorter_wins_ties,
    )


def _decision(
    candidate: Candidate, result: TrialResult, judged: Judged | None, before: Standing, after: Standing, rules: Rules
) -> Decision:
    now_best = after.candidate_id == candidate.candidate_id
    obstacle = _obstacle(result, judged, rules.judgement)
    if now_best:
        explanation = kept(result, before, judged)
    elif result.status != "completed":
        explanation = not_measured(result)
    else:
        beaten_by = after if _beats(result, before, rules) else before
        explanation = dropped(result, obstacle, beaten_by, judged)
    return Decision(
        candidate_id=candidate.candidate_id,
        kept=now_best,
        reference=judged.evidence.reference if judged else None,
        verdict=judged.verdict if judged else None,
        accepted=judged.accepted if judged else None,
        adjusted_p=judged.adjusted_p if judged else None,
        family=judged.family if judged else 0,
        objectives=judged.objectives if judged else {},
        explanation=explanation,
    )


def _beats(result: TrialResult, standing: Standing, rules: Rules) -> bool:
    score = result.objective_score
    return score is not None and is_better(score, standing.score, rules.direction)


def front_after(
    front: Sequence[FrontMember], baseline_id: str, results: Sequence[TrialResult], spec: JudgementSpec, metric: str
) -> tuple[FrontMember, ...]:
    """The Pareto front once these trials are known. Whoever left it never comes back: nobody else need be remembered."""
    if not spec.objectives:
        return ()
    members = list(front) or [FrontMember(candidate_id=baseline_id, gains=dict.fromkeys(_names(spec, metric), 0.0))]
    for result in results:
        evidence = evidence_against(result, baseline_id)
        if evidence is not None and evidence.refused is None and result.race is None:
            members.append(_member(result.candidate_id, evidence, spec, metric))
    staying = pareto_front({member.candidate_id: list(member.gains.values()) for member in members})
    return tuple(member for member in members if member.candidate_id in staying)[:LARGEST_FRONT]


def _names(spec: JudgementSpec, metric: str) -> list[str]:
    return [metric, *(objective.measure for objective in spec.objectives if objective.measure != metric)]


def _member(candidate_id: str, evidence: Evidence, spec: JudgementSpec, metric: str) -> FrontMember:
    [judged] = judge([evidence], spec)
    gains = {metric: evidence.effect, **{name: other.effect for name, other in evidence.objectives.items()}}
    verdicts = {metric: judged.verdict, **judged.objectives}
    return FrontMember(
        candidate_id=candidate_id,
        gains={name: gains[name] for name in _names(spec, metric)},
        verdicts={name: verdicts[name] for name in _names(spec, metric)},
    )
