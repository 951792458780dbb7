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
from clients.reports.removal_notes import removal_text
from ratchet.prompts.compiled import Rendering
from workflows.model.run.decisions import FrontMember
from workflows.model.run.rounds import RoundRecord
from workflows.model.trial import SEARCHING, Purpose
from workflows.rules.spec.prompt_factors import TOOLS, template_of

REPORT_SCHEMA: Final = "ratchet-report-1"


def get_entries(facts: RunFacts) -> list[dict[str, Any]]:
    """One dictionary per round, the baseline's first. Only the last round of a run that is over has a stop reason.

    Every trial that was run is in one of them, with its purpose: those of the noise, of parts and of the confirmation as well.
    """
    taken: dict[int, list[IterationStep]] = {record.round: [] for record in facts.rounds}
    for step in steps(facts):
        taken.setdefault(step.iteration.round, []).append(step)
    trials = _trials_by_round(facts, set(taken))
    records = {record.round: record for record in facts.rounds}
    entries: list[dict[str, Any]] = []
    best: Iteration | None = None
    first = 0
    for number in sorted(trials):
        decided = taken.get(number, [])
        best = decided[-1].best if decided else best
        indexed = list(enumerate(trials[number], start=first))
        first += len(indexed)
        entries.append(_round(facts, number, indexed, best, records.get(number)))
    if entries and facts.result is not None:
        entries[-1] |= {"stop_reason": facts.result.stop_reason.value, "stopped": True}
    return entries


def _trials_by_round(facts: RunFacts, known: set[int]) -> dict[int, list[Iteration]]:
    """Every finished trial in the order of the proposals; what confirms the winner belongs to the last round."""
    searched = [trial for trial in (*facts.iterations, *facts.further) if trial.purpose is not Purpose.CONFIRMATION]
    searched.sort(
        key=lambda trial: (trial.round, trial.purpose is not Purpose.NOISE, trial.index, trial.number, trial.trial_id)
    )
    rounds: dict[int, list[Iteration]] = {number: [] for number in known}
    for trial in searched:
        rounds.setdefault(trial.round, []).append(trial)
    confirming = [trial for trial in facts.further if trial.purpose is Purpose.CONFIRMATION]
    if confirming:
        rounds.setdefault(max(rounds, default=0), []).extend(sorted(confirming, key=lambda trial: trial.round))
    return rounds


def _round(
    facts: RunFacts, number: int, indexed: list[tuple[int, Iteration]], best: Iteration | None, record: RoundRecord | None
) -> dict[str, Any]:
    in_full = [trial for _, trial in indexed if trial.purpose in SEARCHING]
    names = {trial.candidate_id for trial in in_full}
    explored = {trial.candidate_id: trial for _, trial in indexed if trial.purpose is Purpose.EXPLORATION}
    winner = _best_of(in_full, facts)
    extra: dict[str, Any] = dict(record.extra) if record else {"decided": False}
    if record and record.pareto_front:
        extra["pareto_front"] = [_front_member(facts, member) for member in record.pareto_front]
    rejected = [rejection.model_dump(mode="json") for rejection in facts.rejections if rejection.round == number]
    if rejected:
        extra["rejections"] = rejected
    in_part = [trial for name, trial in explored.items() if name not in names]
    return {
        "round_index": number,
        "trials": [_trial(index, trial, facts) for index, trial in indexed],
        "candidates": [*(_candidate(one, facts) for one in in_full), *(_unscored(one, facts) for one in in_part)],
        "best_score": winner.score if winner else None,
        "best_candidate": _candidate(winner, facts) if winner else None,
        "stop_reason": None,
        "stopped": False,
        "best_so_far": best.score if best else None,
        "timestamp": instant(record.decided_at) if record else None,
        "extra": extra,
    }


def _front_member(facts: RunFacts, member: FrontMember) -> dict[str, Any]:
    measured = next((trial for trial in facts.iterations if trial.candidate_id == member.candidate_id), None)
    return {
        "id": member.candidate_id,
        "metrics": _metrics(measured, facts) if measured else {},
        "candidate_ref": measured.config_hash if measured else None,
        "gains": member.gains,
        "verdicts": {name: verdict.value for name, verdict in member.verdicts.items()},
    }


def _best_of(trials: list[Iteration], facts: RunFacts) -> Iteration | None:
    scored = [trial for trial in trials if trial.score is not None]
    sign = 1 if facts.direction == "maximize" else -1
    return max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)


def _trial(index: int, trial: Iteration, facts: RunFacts) -> dict[str, Any]:
    searched = trial.purpose in SEARCHING
    decision = decision_on(facts, trial) if searched else None
    return {
        "trial_index": index,
        "score": trial.score,
        "candidate": _candidate(trial, facts),
        "metrics": _metrics(trial, facts),
        "dataset": facts.dataset_name or facts.dataset_id,
        "extra": {
            "purpose": trial.purpose.value,
            "iteration": trial.number if searched else None,
            "status": trial.status.value,
            "failure_reason": trial.failure_reason,
            "decision": decision.model_dump(mode="json") if decision else None,
            "evidence": [evidence.model_dump(mode="json") for evidence in trial.evidence],
            "errors": trial.statistics.errors,
            "dataset_split": trial.split,
            "first_sample": trial.first,
            "samples": trial.samples,
            "replicates": trial.replicates,
            "started_at": instant(trial.started_at) if trial.started_at else None,
            "duration_ms": trial.duration_ms,
        },
        "timestamp": instant(trial.ended_at) if trial.ended_at else None,
    }


def _candidate(iteration: Iteration, facts: RunFacts) -> dict[str, Any]:
    noted = {("ops" if name == "operators" else name): value for name, value in iteration.extra.items()}
    rendering = _rendering(iteration, facts)
    if rendering is not None:
        noted["chat_prompt"] = _chat_prompt(rendering, facts)
    return {
        "id": iteration.candidate_id,
        "candidate": dict(iteration.configuration),
        "score": iteration.score,
        "metrics": _metrics(iteration, facts),
        "notes": iteration.rationale,
        "tools": _tools(rendering) if rendering is not None and rendering.tools else iteration.configuration.get(TOOLS),
        "extra": {**noted, "parents": list(iteration.parents), "config_hash": iteration.config_hash},
    }


def _rendering(iteration: Iteration, facts: RunFacts) -> Rendering | None:
    """The candidate's prompt, where the run is about one."""
    template = template_of(facts.request)
    try:
        return None if template is None else template.rendering(iteration.configuration)
    except (KeyError, ValueError):  # a configuration that no trial could be rendered from
        return None


def _chat_prompt(rendering: Rendering, facts: RunFacts) -> dict[str, Any]:
    """Its messages, with the placeholders of samples as they are written."""
    messages = [{"role": "system", "content": rendering.system.text}]
    for question, answer in rendering.examples:
        messages += [{"role": "user", "content": question.text}, {"role": "assistant", "content": answer.text}]
    template = template_of(facts.request)
    return {"name": template.name if template else None, "messages": messages}


def _tools(rendering: Rendering) -> list[dict[str, Any]]:
    """What a model may call, as the candidate describes it."""
    return [
        {"type": "function", "function": {"name": name, "description": description.text, "parameters": parameters}}
        for name, description, parameters in rendering.tools
    ]


def _unscored(iteration: Iteration, facts: RunFacts) -> dict[str, Any]:
    """A candidate that was measured on some samples only: what it scored on them stands with that trial."""
    return _candidate(iteration, facts) | {"score": None, "metrics": None}


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
            {
                "candidate_id": one.candidate_id,
                "score": one.score,
                "low": one.low,
                "high": one.high,
                "pass_rate": one.statistics.success_rate,
            }
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
        "first_look": facts.first_look.model_dump(mode="json") if facts.first_look else None,
        "removals": [removal.model_dump(mode="json", exclude={"run_id"}) for removal in facts.removals],
        "removed": removal_text(facts.removals),
        "legal_holds": [hold.model_dump(mode="json") for hold in facts.legal_holds],
        "marks": [mark.model_dump(mode="json", exclude={"run_id"}) for mark in facts.marks],
        "slices": facts.slices.model_dump(mode="json") if facts.slices else None,
        "counts": facts.counts.model_dump(),
        "spend": facts.spend.model_dump(),
        "cached_tokens": facts.cached_tokens,
        "prices": facts.versions.get("prices"),
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
