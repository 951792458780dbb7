"""A round's decision: what each candidate's evidence says, which of them becomes the best, and why, in one sentence each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ratchet.optimizer import Direction
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Standing
from workflows.model.run.decisions import Decision, FrontMember
from workflows.model.spec.judgement import Evidence, Judged, JudgementSpec, RaceDecision, Verdict
from workflows.model.trial import TrialResult
from workflows.rules.decisions.best import shorter_of, standing_after
from workflows.rules.decisions.sentences import ABOUT_BASELINE, dropped, kept, not_measured
from workflows.rules.decisions.verdicts import ALONE, Family, judge, pareto_front
from workflows.rules.scoring.objective_score import is_better

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
    family: Family = ALONE
    """What else the run claims beside this round."""


def decided_against(spec: JudgementSpec, baseline_id: str, best_id: str) -> str:
    """The candidate that a round is judged against.

    The best so far, which candidates want to beat; but whoever only must not be worse is compared with the baseline, or small
    losses would add up.
    """
    return baseline_id if spec.rule != "improvement" or spec.accept in ("not_worse", "shorter") else best_id


def unfinished_winner(
    best: Standing,
    baseline_id: str,
    candidates: Sequence[Candidate],
    results: Sequence[TrialResult],
    rules: Rules,
    finished: Collection[int] = (),
) -> int | None:
    """The place of the candidate that must be measured in full, because it won its race and will be the best.

    Of several it is the one that gained the most so far. `finished` are the places of those that were measured in full already:
    one that stands leaves the others where they are. Where length decides, scores need not be known that well.
    """
    if rules.judgement.accept == "shorter":
        return None
    judged = _judged(results, decided_against(rules.judgement, baseline_id, best.candidate_id), rules)
    winner = _winner(best, candidates, results, judged, rules)
    if any(results[place].candidate_id == winner.candidate_id for place in finished):
        return None
    sign = 1.0 if rules.direction is Direction.MAXIMIZE else -1.0
    expected = {
        place: sign * score
        for place, result in enumerate(results)
        if result.race is not None
        and _obstacle(result, judged.get(result.candidate_id), rules.judgement) is None
        and (score := _expected_score(result, best, rules.direction)) is not None
    }
    leader = max(expected, key=lambda place: expected[place], default=None)
    return leader if leader is not None and expected[leader] > sign * winner.score else None


def decide_round(
    best: Standing, baseline_id: str, candidates: Sequence[Candidate], results: Sequence[TrialResult], rules: Rules
) -> tuple[Standing, list[Decision]]:
    """Judge a round's candidates together, and let the best of those that may stand stand."""
    judged = _judged(results, decided_against(rules.judgement, baseline_id, best.candidate_id), rules)
    winner = _winner(best, candidates, results, judged, rules)
    decisions = [
        _decision(candidate, result, judged.get(candidate.candidate_id), best, winner, rules)
        for candidate, result in zip(candidates, results, strict=True)
    ]
    return winner, decisions


def _winner(
    best: Standing,
    candidates: Sequence[Candidate],
    results: Sequence[TrialResult],
    judged: Mapping[str, Judged],
    rules: Rules,
) -> Standing:
    """Of those that were measured in full: whoever else won its race gained less than one of them."""
    if rules.judgement.accept == "shorter":
        return _shortest(best, candidates, results, judged, rules)
    winner = best
    for candidate, result in zip(candidates, results, strict=True):
        if result.race is None and _obstacle(result, judged.get(candidate.candidate_id), rules.judgement) is None:
            winner = standing_after(
                winner,
                candidate,
                result.objective_score,
                rules.direction,
                rules.min_delta,
                shorter_wins_ties=rules.shorter_wins_ties,
            )
    return winner


def _shortest(
    best: Standing,
    candidates: Sequence[Candidate],
    results: Sequence[TrialResult],
    judged: Mapping[str, Judged],
    rules: Rules,
) -> Standing:
    """Of all that satisfy the rule, those that won their race included."""
    winner = best
    for candidate, result in zip(candidates, results, strict=True):
        if _obstacle(result, judged.get(candidate.candidate_id), rules.judgement) is None:
            expected = None if result.race is None else _expected_score(result, best, rules.direction)
            winner = shorter_of(winner, candidate, result.objective_score if expected is None else expected)
    return winner


def _expected_score(result: TrialResult, best: Standing, direction: Direction) -> float | None:
    """What the score of a trial that ended early will be, as far as its gain over the best says."""
    evidence = evidence_against(result, best.candidate_id)
    if evidence is None:
        return None
    return best.score + (evidence.effect if direction is Direction.MAXIMIZE else -evidence.effect)


def decision_on_baseline(candidate: Candidate, result: TrialResult) -> Decision:
    """The baseline stands as the best until something beats it."""
    if result.objective_score is None:
        return Decision(candidate_id=candidate.candidate_id, explanation=not_measured(result))
    told = ABOUT_BASELINE.format(score=result.objective_score, answers=result.summary.total)
    return Decision(candidate_id=candidate.candidate_id, kept=True, explanation=told)


def _judged(results: Sequence[TrialResult], reference: str, rules: Rules) -> dict[str, Judged]:
    """The verdicts, by candidate: of all that were measured, together."""
    found = {
        result.candidate_id: (result.race, evidence)
        for result in results
        if (evidence := evidence_against(result, reference)) is not None
    }
    spec = rules.judgement
    judged = judge([evidence for _, evidence in found.values()], spec, rules.family)
    raced = [race for race, _ in found.values()]
    return dict(zip(found, [_as_raced(one, race, spec) for one, race in zip(judged, raced, strict=True)], strict=True))


def _as_raced(judged: Judged, race: RaceDecision | None, spec: JudgementSpec) -> Judged:
    """A trial that ended early has the verdict that its race found certain, but no p-value: its size was not chosen before."""
    if race is None or race.reason is None:
        return judged
    verdict = {"win": _won(spec), "regression": Verdict.WORSE, "futility": Verdict.INCONCLUSIVE}[race.reason]
    accepted = race.reason == "win" and spec.accept != "score" and _keeps_what_all_must(judged.evidence)
    told = f"stopped early, {race.words}"
    return judged.model_copy(update={"verdict": verdict, "accepted": accepted, "adjusted_p": 1.0, "explanation": told})


def _won(spec: JudgementSpec) -> Verdict:
    """What a race is won for."""
    if spec.accept == "shorter":
        return Verdict.BETTER if spec.rule == "improvement" else Verdict.NOT_WORSE
    return {"score": Verdict.INCONCLUSIVE, "better": Verdict.BETTER, "not_worse": Verdict.NOT_WORSE}[spec.accept]


def _keeps_what_all_must(evidence: Evidence) -> bool:
    return not evidence.must_pass_broken and all(check.holds for check in evidence.constraints)


def evidence_against(result: TrialResult, reference: str) -> Evidence | None:
    """What a trial's comparison with one candidate found."""
    return next((evidence for evidence in result.evidence if evidence.reference == reference), None)


def _obstacle(result: TrialResult, judged: Judged | None, spec: JudgementSpec) -> str | None:
    """Why a candidate may not become the best, whatever its score."""
    if result.status != "completed" or result.objective_score is None:
        return not_measured(result)
    if result.race is not None and result.race.reason in ("futility", "regression"):
        return f"stopped early, {result.race.words}"
    if judged is None:
        return "there is nothing to compare it with" if spec.accept == "shorter" else None
    if not _keeps_what_all_must(judged.evidence):
        return "it breaks what every candidate must keep"
    if spec.accept == "shorter" and not judged.accepted:
        return f"it does not satisfy the rule {spec.rule}"
    wanted = _ENOUGH.get(spec.accept)
    if wanted is not None and judged.verdict not in wanted:
        return f"judgement.accept asks for the verdict {spec.accept}"
    return None


def _decision(
    candidate: Candidate, result: TrialResult, judged: Judged | None, before: Standing, after: Standing, rules: Rules
) -> Decision:
    now_best = after.candidate_id == candidate.candidate_id
    obstacle = _obstacle(result, judged, rules.judgement)
    if now_best:
        explanation = kept(result, before, judged, shorter=rules.judgement.accept == "shorter")
    elif result.status != "completed":
        explanation = not_measured(result)
    elif rules.judgement.accept == "shorter":
        explanation = dropped(result, obstacle or f"{after.candidate_id} is shorter", after, judged)
    else:
        score = result.objective_score
        beats = result.race is not None or (score is not None and is_better(score, before.score, rules.direction))
        explanation = dropped(result, obstacle, after if beats else before, judged)
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


def front_after(
    front: Sequence[FrontMember],
    baseline_id: str,
    results: Sequence[TrialResult],
    spec: JudgementSpec,
    metric: str,
    share: float = 1.0,
) -> tuple[FrontMember, ...]:
    """The Pareto front once these trials are known. Whoever left it never comes back: nobody else need be remembered.

    A round's verdicts against the baseline are one decision here, too.
    """
    if not spec.objectives:
        return ()
    members = list(front) or [FrontMember(candidate_id=baseline_id, gains=dict.fromkeys(_names(spec, metric), 0.0))]
    found = {
        result.candidate_id: evidence
        for result in results
        if result.race is None and (evidence := evidence_against(result, baseline_id)) is not None and evidence.refused is None
    }
    verdicts = judge(list(found.values()), spec, Family(share))
    members += [_member(name, judged, spec, metric) for name, judged in zip(found, verdicts, strict=True)]
    staying = pareto_front({member.candidate_id: list(member.gains.values()) for member in members})
    return tuple(member for member in members if member.candidate_id in staying)[:LARGEST_FRONT]


def _names(spec: JudgementSpec, metric: str) -> list[str]:
    return [metric, *(objective.measure for objective in spec.objectives if objective.measure != metric)]


def _member(candidate_id: str, judged: Judged, spec: JudgementSpec, metric: str) -> FrontMember:
    evidence = judged.evidence
    gains = {metric: evidence.effect, **{name: other.effect for name, other in evidence.objectives.items()}}
    verdicts = {metric: judged.verdict, **judged.objectives}
    return FrontMember(
        candidate_id=candidate_id,
        gains={name: gains[name] for name in _names(spec, metric)},
        verdicts={name: verdicts[name] for name in _names(spec, metric)},
    )
