"""How a run ends, and the result it gives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ratchet._formats.canonical import canonical_json
from ratchet.optimizer import StopReason
from workflows.model.run.candidates import Candidate
from workflows.model.run.decisions import Reference
from workflows.model.run.run_result import Confirmation, Ending, FactorChange, How, OptimizationResult, Unproven
from workflows.model.spec.factors import Configuration
from workflows.model.spec.judgement import Judged
from workflows.model.trial import TrialResult
from workflows.rules.decisions.budget import confirmation_fits, exhausted, exhausted_by
from workflows.rules.decisions.sentences import NOTHING_HOLDS, on_confirmation
from workflows.rules.decisions.stop_rules import decide
from workflows.rules.scoring.objective_score import gain
from workflows.run.end.ended import RunEnded
from workflows.run.state import RunState

OUT_OF_TIME = "the time budget (budget.wall_time) was over before baseline and winner were measured again; allow more"


def ended_by_rules(state: RunState, now: datetime) -> RunEnded | None:
    """The end of the run, where its stop rules or its budget call for it now."""
    decision = decide(state.limits, state.facts(now))
    if not decision.should_stop:
        spending, budget = state.spending, state.limits.budget
        over = spending.over or exhausted(budget, spending.spend, state.needs, spending.lost)
        short = spending.exhausted
        found = over if short is None else exhausted_by(short, budget, spending.team_rest)
        if found is None:
            return None
        decision = found
    reason, message = decision.reason or StopReason.ALGORITHM_SPECIFIC, decision.message or ""
    if reason is StopReason.TOO_MANY_FAILURES:
        return RunEnded(reason, f"{message}: {state.last_failure}", "failed")
    return RunEnded(reason, message)


def unmeasured(state: RunState, baseline: TrialResult) -> RunEnded | None:
    """The end of a run whose baseline, or its noise, could not be measured."""
    if baseline.status == "completed":
        return None
    if baseline.exhausted is not None:
        over = exhausted_by(baseline.exhausted, state.limits.budget, baseline.team_rest)
        told = f"{over.message}, before the baseline was measured: {baseline.stopped_early}"
        return RunEnded(over.reason or StopReason.BASELINE_FAILED, told, "failed")
    return RunEnded(StopReason.BASELINE_FAILED, f"The baseline failed: {baseline.error}", "failed")


def refused_at_first_look(state: RunState) -> RunEnded | None:
    """The end of a run that shall not go on where something is probably wrong."""
    if not state.first_look or state.request.execution.first_look != "strict":
        return None
    told = " ".join(state.first_look)
    return RunEnded(StopReason.FIRST_LOOK, f"Ended after the first look at the baseline's answers: {told}", "failed")


def scoring_broke(results: Sequence[TrialResult]) -> RunEnded | None:
    """The end of a run whose answers cannot be scored."""
    broken = next((result for result in results if result.failure == "scoring"), None)
    if broken is None:
        return None
    return RunEnded(StopReason.SCORING_FAILURE, f"Scoring failed: {broken.error}", "failed")


def ending_of(state: RunState, end: RunEnded, now: datetime) -> Ending:
    """Who ended the run, and what that was decided on."""
    return Ending(by=end.by, decided_at=now, paused_for=state.time.paused_for, limits=state.limits_if_adjusted)


def to_confirm(state: RunState) -> list[Candidate]:
    """Baseline and winner once more, or the baseline alone where it is the best; nothing where nothing is confirmed."""
    assert state.prepared and state.best
    baseline = state.baseline_candidate_again()
    pair = [baseline] if state.best.config_hash == baseline.config_hash else [baseline, state.best_candidate()]
    return pair if state.prepared.test_samples or (state.is_confirmed and len(pair) > 1) else []


def uncovered(state: RunState, pair: Sequence[Candidate]) -> str | None:
    """Why the confirmation is not begun, where the budget does not cover it."""
    assert state.prepared
    needed = state.needs.confirmation_calls if len(pair) > 1 else state.prepared.test_samples * state.design.baseline_replicates
    if confirmation_fits(state.limits.budget, state.spending.counted, len(pair), needed):
        return None
    return "what is left of the budget does not cover it"


def confirmed_by_the_search(state: RunState, results: Sequence[TrialResult]) -> bool:
    """Whether a run that scores the answers of another one has none to confirm its winner with: that run chose another."""
    lacking = len(results) > 1 and any(result.status != "completed" for result in results)
    return lacking and state.request.optimizer.answers_of is not None


def confirmation_references(state: RunState, pair: Sequence[Candidate]) -> list[Reference]:
    """Baseline and winner as they were measured for the confirmation."""
    return [
        Reference(
            candidate_id=one.candidate_id,
            config_hash=one.config_hash,
            first_replicate=one.first_replicate,
            replicates=replicates,
        )
        for one, replicates in zip(pair, (state.design.baseline_replicates, state.design.replicates), strict=False)
    ]


def cut_off(results: Sequence[TrialResult], how: How) -> Confirmation | None:
    """What is left of a confirmation that the time budget ended."""
    if all(result.status != "timeout" for result in results):
        return None
    found = Confirmation(how=how, refused=OUT_OF_TIME)
    return found.model_copy(update={"explanation": on_confirmation(found)})


def confirmed(state: RunState, baseline: float | None, winner: float | None, judged: Judged | None, how: How) -> Confirmation:
    """What the confirmation says, and how much more the search had promised."""
    if judged is not None and how == "cross_fitting":
        baseline, winner = judged.evidence.reference_mean, judged.evidence.mean
    promised = optimism = None
    if judged is not None and state.best and state.baseline and state.baseline.score is not None:
        assert baseline is not None and winner is not None
        direction = state.request.objective.direction
        promised = gain(state.best.score, state.baseline.score, direction)
        optimism = promised - gain(winner, baseline, direction)
    found = Confirmation(
        how=how,
        holds=judged is not None and judged.accepted,
        baseline_score=baseline,
        winner_score=winner,
        judged=judged,
        promised=promised,
        optimism=optimism,
    )
    return found.model_copy(update={"explanation": on_confirmation(found)})


def result_of(state: RunState, end: RunEnded, confirmation: Confirmation | None, now: datetime) -> OptimizationResult:
    """The run's result, from its books. A winner that was to be confirmed and does not hold leaves the baseline there."""
    unproven = _unproven(state, end, confirmation)
    best = state.baseline if unproven else state.best
    winner = state.best.configuration if state.best else {}
    best_configuration = state.baseline_candidate_again().configuration if unproven else winner
    return OptimizationResult(
        optimization_id=state.run_id,
        status=end.status,
        stop_reason=end.reason,
        message=_with_outcome(end.message, unproven),
        baseline_score=state.baseline.score if state.baseline else None,
        best_score=best.score if best else None,
        best_candidate_id=best.candidate_id if best else None,
        best_config_hash=best.config_hash if best else None,
        best_configuration=best_configuration,
        changes=_changes(state, best_configuration),
        confirmation=confirmation,
        unproven=unproven,
        plan=state.plan,
        noise=state.noise,
        first_look=state.first_look,
        rounds=state.round,
        counts=state.counts,
        spend=state.spending.spend,
        lost=state.spending.lost,
        reused=state.spending.reused,
        evaluation_suite_id=state.prepared.evaluation_suite_id if state.prepared else None,
        started_at=state.time.started_at,
        finished_at=now,
        history=f"ratchet report {state.run_id}",
    )


def _unproven(state: RunState, end: RunEnded, confirmation: Confirmation | None) -> Unproven | None:
    """The search's winner, where it is not the baseline and would have to be confirmed to be the result, and is not."""
    best, baseline = state.best, state.baseline
    if best is None or baseline is None or best.config_hash == baseline.config_hash or not state.is_confirmed:
        return None
    if confirmation is not None and confirmation.holds:
        return None
    return Unproven(
        candidate_id=best.candidate_id,
        config_hash=best.config_hash,
        configuration=best.configuration,
        score=best.score,
        changes=_changes(state, best.configuration),
        why=on_confirmation(confirmation) if confirmation is not None else f"not confirmed: the run was {end.status} before",
    )


def _changes(state: RunState, configuration: Configuration) -> dict[str, FactorChange]:
    baseline = state.request.baseline
    return {
        name: FactorChange(before=baseline[name], after=value)
        for name, value in configuration.items()
        if canonical_json(value) != canonical_json(baseline[name])
    }


def _with_outcome(message: str, unproven: Unproven | None) -> str:
    """Why the run ended, and that it found nothing; said once, also where the end is taken as it is recorded."""
    return f"{message}; {NOTHING_HOLDS}" if unproven and not message.endswith(NOTHING_HOLDS) else message
