"""From the store's rows to the facts of a report."""

from __future__ import annotations

from collections.abc import Sequence

from clients.reports.facts import (
    Iteration,
    IterationStatus,
    RunFacts,
    SplitSamples,
    failure_reason,
    iteration_status,
    statistics_of,
)
from store.read.rows.report_rows import RunReport
from store.read.rows.round_rows import RoundRow
from store.read.rows.run_rows import RunDetail
from store.read.rows.trial_rows import TrialInFull
from workflows.model.run.candidates import Rejection
from workflows.model.run.rounds import LimitsInForce, RoundRecord, Spend
from workflows.model.spec.execution import Budget, Stop
from workflows.model.spec.factors import Configuration
from workflows.model.spec.request import OptimizationRequest
from workflows.model.trial import SEARCHING


def facts_of(report: RunReport) -> RunFacts:
    """The facts of a run as `StoreReader.report` gives it."""
    run = report.run
    request = OptimizationRequest.model_validate(run.spec)
    return RunFacts(
        run_id=run.run_id,
        use_case=run.use_case,
        experiment=run.experiment,
        status=run.status,
        request=request,
        result=run.result,
        message=run.message if run.result is None else "",
        iterations=_iterations(report.trials, request),
        further=tuple(_iteration(0, trial, request) for trial in report.trials if _is_beside_the_search(trial)),
        rounds=tuple(_record(run.run_id, row) for row in report.rounds),
        rejections=tuple(Rejection.model_validate(row.model_dump()) for row in report.rejections),
        counts=run.counts,
        spend=run.spend,
        cached_tokens=run.cached_tokens,
        lost=run.lost,
        answers=sum(trial.summary.total for trial in report.trials),
        reused=sum(trial.reused_samples for trial in report.trials),
        started_at=run.started_at,
        finished_at=run.finished_at,
        stood_still_seconds=run.stood_still_seconds,
        dataset_id=run.dataset_id,
        dataset_name=run.dataset_name,
        evaluation_suite_id=run.evaluation_suite_id,
        search_split=run.search_split,
        splits=tuple(SplitSamples.model_validate(drawn.model_dump()) for drawn in report.splits),
        proposals=report.proposals,
        versions=run.versions,
        plan=run.plan,
        noise=run.noise,
        first_look=run.first_look,
        releases=report.releases,
        sources_removed=run.sources_removed,
        removals=run.removals,
        legal_holds=run.legal_holds,
        marks=report.marks,
        adjusted=_adjusted(run, request),
    )


def request_in_force(run: RunDetail) -> OptimizationRequest:
    """The spec with the stop rules and the budget that people set since."""
    request, limits = OptimizationRequest.model_validate(run.spec), run.limits
    adjusted: dict[str, Stop | Budget] = {}
    if limits.get("stop"):
        adjusted["stop"] = Stop.model_validate(limits["stop"])
    if limits.get("budget"):
        adjusted["budget"] = Budget.model_validate(limits["budget"])
    return request.model_copy(update=adjusted)


def _adjusted(run: RunDetail, asked: OptimizationRequest) -> LimitsInForce | None:
    """Stop rules and budget as people left them; None when they changed nothing."""
    now = request_in_force(run)
    same = (now.stop, now.budget) == (asked.stop, asked.budget)
    return None if same else LimitsInForce(stop=now.stop, budget=now.budget)


def _is_beside_the_search(trial: TrialInFull) -> bool:
    return trial.purpose not in SEARCHING and trial.status != "running"


def _iterations(trials: Sequence[TrialInFull], request: OptimizationRequest) -> tuple[Iteration, ...]:
    """Up to the first trial that still runs, so that an iteration never changes its number while the run goes on."""
    search = sorted(
        (trial for trial in trials if trial.purpose in SEARCHING),
        key=lambda trial: (trial.round, trial.index, trial.candidate_id),
    )
    iterations: list[Iteration] = []
    for number, trial in enumerate(search):
        if trial.status == "running":
            break
        iterations.append(_iteration(number, trial, request))
    return tuple(iterations)


def _iteration(number: int, trial: TrialInFull, request: OptimizationRequest) -> Iteration:
    status = iteration_status(trial.status, trial.score, trial.failure)
    return Iteration(
        number=number,
        round=trial.round,
        candidate_id=trial.candidate_id,
        config_hash=trial.config_hash,
        configuration=_in_the_specs_order(trial.configuration, request),
        parents=trial.parent_candidate_ids,
        rationale=trial.rationale,
        extra=trial.extra,
        split=trial.split.value,
        statistics=statistics_of(trial.summary, trial.coverage),
        score=trial.score if status is IterationStatus.SUCCESS else None,
        low=trial.score_low,
        high=trial.score_high,
        status=status,
        failure_reason=None if status is IterationStatus.SUCCESS else failure_reason(trial.status, trial.error),
        started_at=trial.started_at,
        ended_at=trial.finished_at,
        sample_means=trial.sample_means,
        evidence=trial.evidence,
        trial_id=trial.trial_id,
        purpose=trial.purpose,
        index=trial.index,
        trial_status=trial.status,
        error=trial.error,
        failure=trial.failure,
        first=trial.first_sample,
        samples=trial.samples,
        replicates=trial.replicates,
        first_replicate=trial.first_replicate,
        stopped_early=trial.stopped_early,
        looks=trial.looks,
        exhausted=trial.exhausted,
        team_rest=trial.team_rest,
        paid=Spend(samples=trial.paid_samples, tokens=trial.paid_tokens, cost=trial.paid_cost),
        lost=Spend(samples=trial.lost_samples, tokens=trial.lost_tokens, cost=trial.lost_cost),
        reused=trial.reused_samples,
    )


def _in_the_specs_order(configuration: Configuration, request: OptimizationRequest) -> Configuration:
    known = {name: configuration[name] for name in request.configuration if name in configuration}
    return {**known, **configuration}


def _record(run_id: str, row: RoundRow) -> RoundRecord:
    """The record as written, with how the round ended as the run's end may have stamped it later."""
    decided = {"run_id": run_id, "round": row.round, "decided_at": row.decided_at, "extra": row.extra}
    ending = {"stop_reason": row.stop_reason, "stopped": row.stopped}
    return RoundRecord.model_validate({**row.record, **decided, **ending})
