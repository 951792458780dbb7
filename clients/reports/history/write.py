"""From the facts of a run to its exported history, and the fingerprint that tells whether one was changed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from clients.reports.comparisons.score_differences import difference_of
from clients.reports.facts import Iteration, RunFacts, best_iteration, factor_type, fixed_factors, improvement, treatment
from clients.reports.formatting import CAUSES, FROM_OUTSIDE
from clients.reports.history.format import (
    FINGERPRINT,
    BestIteration,
    Components,
    RecordedConfirmation,
    RecordedHistory,
    RecordedInterval,
    RecordedIteration,
    RecordedRejection,
    RecordedRound,
    RecordedSlices,
    RecordedTrial,
    TerminationReason,
    TreatmentFactor,
)
from workflows.model.run.rounds import LimitsInForce
from workflows.model.spec.factors import TextFactor
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.decisions.stop_rules import Limits, describe
from workflows.rules.scoring.objective_score import describe_objective


def history_of(facts: RunFacts, *, sample_means: bool = True) -> RecordedHistory:
    """The document of a run; the scores of single samples can be left out, at the price of a less complete replay."""
    request, factors, best = facts.request, treatment(facts), best_iteration(facts)
    types = [TreatmentFactor(name=name, type=factor_type(request.configuration[name])) for name in factors]
    ended, change = facts.finished_at, improvement(facts)
    return RecordedHistory(
        run_id=facts.run_id,
        use_case_id=facts.use_case,
        experiment_id=facts.experiment,
        status=facts.status,
        treatment_factor_name=", ".join(factors),
        treatment_factor_type=", ".join(factor.type for factor in types),
        treatment_factors=tuple(types),
        fixed_factors=fixed_factors(facts),
        objective="MAXIMIZE" if facts.direction == "maximize" else "MINIMIZE",
        scorer_description=describe_objective(request.objective, request.metric),
        mutator_description=request.optimizer.describe(_longest_text(request, factors)),
        termination_policy_description=describe(
            Limits(
                facts.limits.stop,
                facts.limits.budget,
                request.execution.max_consecutive_failed_trials,
                request.optimizer.candidates_per_round > 1,
            )
        ),
        components=_components(request, facts.limits),
        dataset_id=facts.dataset_id,
        evaluation_suite_id=facts.evaluation_suite_id,
        search_split=facts.search_split,
        splits=facts.splits,
        start_time=facts.started_at,
        end_time=ended,
        total_duration_ms=_duration_as_shown(facts.started_at, ended),
        iterations=tuple(_recorded(iteration, sample_means, factors) for iteration in facts.iterations),
        further_trials=tuple(_recorded(trial, sample_means, factors) for trial in facts.further),
        proposals=facts.proposals,
        rounds=tuple(RecordedRound.model_validate(record.model_dump()) for record in facts.rounds),
        rejections=tuple(
            RecordedRejection(
                round=rejection.round,
                proposed_index=rejection.proposed_index,
                reason_code=rejection.reason_code,
                message=rejection.message,
                config_hash=rejection.config_hash,
                parents=rejection.parent_candidate_ids,
            )
            for rejection in facts.rejections
        ),
        best_iteration=None if best is None else BestIteration.model_validate(_measured(best, factors)),
        confirmation=_confirmation(facts),
        slices=RecordedSlices.model_validate(facts.slices.model_dump()) if facts.slices and facts.slices.slices else None,
        termination_reason=_termination(facts),
        score_improvement=_rounded(change.absolute, 10) if change else None,
        score_improvement_percent=_rounded(change.percent, 2) if change else None,
        total_iterations=len(facts.iterations),
        counts=facts.counts,
        spend=facts.spend,
        lost=facts.lost,
        answers=facts.answers,
        reused=facts.reused,
        plan=facts.plan,
        noise=facts.noise,
        result=facts.result,
        versions=facts.versions,
        spec=request,
    )


def document_of(history: RecordedHistory) -> dict[str, Any]:
    """The document as plain values, with its fingerprint."""
    document: dict[str, Any] = history.model_dump(mode="json", by_alias=True, exclude={"content_fingerprint"})
    for iteration in (*document["iterations"], *document["furtherTrials"]):
        for name in ("sampleMeans", "answers", "evidence", "looks"):
            if not iteration[name]:
                del iteration[name]
        if "answers" in iteration and iteration["answers"]["passes"] is None:
            del iteration["answers"]["passes"]
    for drawn in document["splits"]:
        if not drawn["mustPass"]:
            del drawn["mustPass"]
    measured = [*document["iterations"], *([document["bestIteration"]] if document["bestIteration"] else [])]
    for one in measured:
        if not one["statistics"]["errors"]:
            del one["statistics"]["errors"]
    if document["slices"] is None:
        del document["slices"]
    return {**document, FINGERPRINT: fingerprint(document)}


def fingerprint(document: Mapping[str, Any]) -> str:
    """sha256 over everything in the document but the fingerprint itself, whatever the order of its keys."""
    content = {name: value for name, value in document.items() if name != FINGERPRINT}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _measured(iteration: Iteration, treated: tuple[str, ...]) -> dict[str, Any]:
    """Constant factors first, as the reader knows them; then those that change."""
    suit = iteration.configuration
    last = [name for name in treated if name in suit]
    return {
        "iteration_number": iteration.number,
        "candidate_id": iteration.candidate_id,
        "factor_suit": {name: suit[name] for name in [*(name for name in suit if name not in last), *last]},
        "statistics": iteration.statistics,
        "score": iteration.score,
    }


def _recorded(iteration: Iteration, sample_means: bool, treated: tuple[str, ...]) -> RecordedIteration:
    return RecordedIteration.model_validate(
        {
            **_measured(iteration, treated),
            "status": iteration.status,
            "failure_reason": iteration.failure_reason,
            "round": iteration.round,
            "config_hash": iteration.config_hash,
            "parents": iteration.parents,
            "rationale": iteration.rationale,
            "dataset_split": iteration.split,
            "start_time": iteration.started_at,
            "end_time": iteration.ended_at,
            "duration_ms": _duration_as_shown(iteration.started_at, iteration.ended_at),
            "extra": iteration.extra,
            "trial": _trial(iteration),
            "evidence": iteration.evidence,
            "looks": iteration.looks,
            "sample_means": iteration.sample_means if sample_means else None,
            "answers": iteration.answers if sample_means else None,
        }
    )


def _trial(iteration: Iteration) -> dict[str, Any]:
    fields = set(RecordedTrial.model_fields) - {"status"}
    return {**iteration.model_dump(include=fields), "status": iteration.trial_status}


def _components(request: OptimizationRequest, limits: LimitsInForce) -> Components:
    spec = request.model_dump(mode="json", by_alias=True)
    objective = {**spec["objective"], "metric": request.metric, "worst": request.objective.worst_score}
    return Components(
        objective=objective,
        scorers=tuple(
            {**written, "name": scorer.score_name} for written, scorer in zip(spec["scorers"], request.scorers, strict=True)
        ),
        optimizer=spec["optimizer"],
        stop=limits.stop.model_dump(mode="json"),
        budget=limits.budget.model_dump(mode="json"),
        max_consecutive_failed_trials=request.execution.max_consecutive_failed_trials,
        min_coverage=request.execution.min_coverage,
        replicates=request.replicates,
        samples_per_trial=request.samples_per_trial,
        seed=request.seed,
    )


def _confirmation(facts: RunFacts) -> RecordedConfirmation | None:
    confirmation = facts.result.confirmation if facts.result else None
    if confirmation is None:
        return None
    judged = confirmation.judged
    difference = difference_of(judged.evidence, facts.direction) if judged else None
    return RecordedConfirmation(
        baseline_score=confirmation.baseline_score,
        best_score=confirmation.winner_score,
        difference=None
        if difference is None
        else RecordedInterval(
            estimate=difference.estimate,
            low=difference.low,
            high=difference.high,
            confidence=difference.confidence,
            sample_count=difference.n,
        ),
        verdict=judged.verdict if judged else None,
        p_value=judged.adjusted_p if judged else None,
        promised=confirmation.promised,
        optimism=confirmation.optimism,
        explanation=confirmation.explanation,
    )


def _termination(facts: RunFacts) -> TerminationReason | None:
    result = facts.result
    if result is None:
        return TerminationReason(cause=FROM_OUTSIDE[facts.status], message=facts.message) if facts.message else None
    return TerminationReason(cause=CAUSES[result.stop_reason], message=result.message, reason=result.stop_reason)


def _duration_as_shown(start: datetime | None, end: datetime | None) -> int | None:
    """Milliseconds between two times as the document has them, so that one follows from the others."""
    if start is None or end is None:
        return None
    since, until = (moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in (start, end))
    return round((until - since).total_seconds() * 1000)


def _rounded(value: float, decimals: int) -> float | None:
    """None when scores are so far apart that no number says how far."""
    return round(value, decimals) if math.isfinite(value) else None


def _longest_text(request: OptimizationRequest, factors: tuple[str, ...]) -> int | None:
    """The longest text that any of the factors may have."""
    limits = [
        factor.max_length
        for name, factor in request.configuration.items()
        if name in factors and isinstance(factor, TextFactor)
    ]
    return max(limits, default=None)
