"""The history as rounds of trials and candidates, plain dictionaries of one shape for every optimizer; and the JSON report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from clients.reports.facts import (
    Iteration,
    IterationStep,
    RunFacts,
    best_iteration,
    compared,
    confirmed_trials,
    decision_on,
    errors_met,
    fixed_factors,
    least_coverage,
    steps,
    treatment,
)
from clients.reports.formatting import CAUSES, objective_text
from clients.reports.headline import headline_of
from clients.reports.history.format import instant
from clients.reports.pareto_front import front_of
from workflows.model.run.rounds import RoundRecord

REPORT_SCHEMA: Final = "ratchet-report-1"


def get_entries(facts: RunFacts) -> list[dict[str, Any]]:
    """One dictionary per round, the baseline's first. Only the last round of a run that is over has a stop reason."""
    by_round: dict[int, list[IterationStep]] = {record.round: [] for record in facts.rounds}
    for step in steps(facts):
        by_round.setdefault(step.iteration.round, []).append(step)
    records = {record.round: record for record in facts.rounds}
    entries: list[dict[str, Any]] = []
    best: Iteration | None = None
    for number in sorted(by_round):
        best = by_round[number][-1].best if by_round[number] else best
        entries.append(_round(facts, number, by_round[number], best, records.get(number)))
    if entries and facts.result is not None:
        entries[-1] |= {"stop_reason": facts.result.stop_reason.value, "stopped": True}
    return entries


def _round(
    facts: RunFacts, number: int, taken: list[IterationStep], best: Iteration | None, record: RoundRecord | None
) -> dict[str, Any]:
    winner = _best_of(taken, facts)
    extra: dict[str, Any] = dict(record.extra) if record else {"decided": False}
    rejected = [rejection.model_dump(mode="json") for rejection in facts.rejections if rejection.round == number]
    if rejected:
        extra["rejections"] = rejected
    return {
        "round_index": number,
        "trials": [_trial(step.iteration, facts) for step in taken],
        "candidates": [_candidate(step.iteration, facts) for step in taken],
        "best_score": winner.score if winner else None,
        "best_candidate": _candidate(winner, facts) if winner else None,
        "stop_reason": None,
        "stopped": False,
        "best_so_far": best.score if best else None,
        "timestamp": instant(record.decided_at) if record else None,
        "pareto_front": [member.model_dump(mode="json") for member in record.pareto_front] if record else [],
        "extra": extra,
    }


def _best_of(taken: list[IterationStep], facts: RunFacts) -> Iteration | None:
    scored = [step.iteration for step in taken if step.iteration.score is not None]
    sign = 1 if facts.direction == "maximize" else -1
    return max(scored, key=lambda iteration: sign * (iteration.score or 0.0), default=None)


def _trial(iteration: Iteration, facts: RunFacts) -> dict[str, Any]:
    return {
        "trial_index": iteration.number,
        "score": iteration.score,
        "candidate": _candidate(iteration, facts),
        "metrics": _metrics(iteration, facts),
        "dataset": facts.dataset_name or facts.dataset_id,
        "extra": {
            "status": iteration.status.value,
            "failure_reason": iteration.failure_reason,
            "decision": decision.model_dump(mode="json") if (decision := decision_on(facts, iteration)) else None,
            "evidence": [evidence.model_dump(mode="json") for evidence in iteration.evidence],
            "errors": iteration.statistics.errors,
            "dataset_split": iteration.split,
            "started_at": instant(iteration.started_at) if iteration.started_at else None,
            "duration_ms": iteration.duration_ms,
        },
        "timestamp": instant(iteration.ended_at) if iteration.ended_at else None,
    }


def _candidate(iteration: Iteration, facts: RunFacts) -> dict[str, Any]:
    noted = {("ops" if name == "operators" else name): value for name, value in iteration.extra.items()}
    return {
        "id": iteration.candidate_id,
        "candidate": dict(iteration.configuration),
        "score": iteration.score,
        "metrics": _metrics(iteration, facts),
        "notes": iteration.rationale,
        "tools": iteration.configuration.get("tools"),
        "extra": {**noted, "parents": list(iteration.parents), "config_hash": iteration.config_hash},
    }


def _metrics(iteration: Iteration, facts: RunFacts) -> dict[str, float | None]:
    measured = iteration.statistics
    return {
        facts.request.metric: iteration.score,
        "success_rate": measured.success_rate,
        "tokens": measured.total_tokens,
        "cost": measured.total_cost,
        "latency_ms": measured.mean_latency_ms,
        "coverage": measured.coverage,
    }


def report_json(facts: RunFacts) -> dict[str, Any]:
    """The whole report as one JSON object."""
    best, result = best_iteration(facts), facts.result
    return {
        "schema": REPORT_SCHEMA,
        "run_id": facts.run_id,
        "headline": headline_of(facts).model_dump(mode="json"),
        "use_case": facts.use_case,
        "experiment": facts.experiment,
        "status": facts.status,
        "stop_reason": result.stop_reason.value if result else None,
        "cause": CAUSES[result.stop_reason] if result else None,
        "message": result.message if result else None,
        "objective": objective_text(facts.request),
        "treatment": list(treatment(facts)),
        "fixed_factors": fixed_factors(facts),
        "iterations": len(facts.iterations),
        "best_iteration": best.number if best else None,
        "best": _candidate(best, facts) if best else None,
        "unproven": result.unproven.model_dump(mode="json") if result and result.unproven else None,
        "confirmation": result.confirmation.model_dump(mode="json") if result and result.confirmation else None,
        "confirmed": [
            {"candidate_id": one.candidate_id, "score": one.score, "low": one.low, "high": one.high}
            for one in confirmed_trials(facts)
        ],
        "compression": result.compression.model_dump(mode="json") if result and result.compression else None,
        "pareto_front": [member.model_dump(mode="json") for member in front_of(facts)],
        "releases": [release.model_dump(mode="json") for release in facts.releases],
        "compared": [
            {
                "iteration": iteration.number,
                "candidate_id": iteration.candidate_id,
                "score": iteration.score,
                "low": iteration.low,
                "high": iteration.high,
                "difference": asdict(difference) if difference else None,
            }
            for iteration, difference in compared(facts)
        ],
        "plan": facts.plan.model_dump(mode="json") if facts.plan else None,
        "slices": facts.slices.model_dump(mode="json") if facts.slices else None,
        "counts": facts.counts.model_dump(),
        "spend": facts.spend.model_dump(),
        "lost": facts.lost.model_dump(),
        "answers": facts.answers,
        "reused": facts.reused,
        "errors": errors_met(facts),
        "least_coverage": least_coverage(facts),
        "budget": facts.limits.budget.model_dump(mode="json"),
        "dataset_id": facts.dataset_id,
        "evaluation_suite_id": facts.evaluation_suite_id,
        "started_at": instant(facts.started_at),
        "finished_at": instant(facts.finished_at) if facts.finished_at else None,
        "rounds": get_entries(facts),
        "rejections": [rejection.model_dump(mode="json") for rejection in facts.rejections],
    }
