"""From an exported history back to the facts of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clients.reports.facts import Iteration, RunFacts
from clients.reports.history.format import RecordedHistory, RecordedIteration
from workflows.model.run.candidates import Rejection
from workflows.model.run.first_look import FirstLook
from workflows.model.run.rounds import LimitsInForce, RoundRecord
from workflows.rules.scoring.slices import Slices
from workflows.rules.statistics import interval_of_score


def facts_from(history: RecordedHistory) -> RunFacts:
    """The facts of the run that a document tells of."""
    result, ended = history.result, history.termination_reason
    return RunFacts(
        run_id=history.run_id,
        use_case=history.use_case_id,
        experiment=history.experiment_id,
        status=history.status,
        request=history.spec,
        result=result,
        message=ended.message if result is None and ended is not None else "",
        iterations=_iterations(history.iterations),
        further=_iterations(history.further_trials),
        rounds=tuple(RoundRecord.model_validate({**told.model_dump(), "run_id": history.run_id}) for told in history.rounds),
        rejections=tuple(
            Rejection.model_validate({**told.model_dump(), "parent_candidate_ids": told.parents}) for told in history.rejections
        ),
        counts=history.counts,
        spend=history.spend,
        lost=history.lost,
        answers=history.answers,
        reused=history.reused,
        started_at=result.started_at if result is not None and result.started_at is not None else history.start_time,
        finished_at=history.end_time,
        dataset_id=history.dataset_id,
        evaluation_suite_id=history.evaluation_suite_id,
        search_split=history.search_split,
        splits=history.splits,
        proposals=history.proposals,
        versions=history.versions,
        slices=Slices.model_validate(history.slices.model_dump()) if history.slices else None,
        plan=history.plan,
        noise=history.noise,
        first_look=None if result is None else FirstLook(warnings=result.first_look),
        adjusted=_adjusted(history),
    )


def _adjusted(history: RecordedHistory) -> LimitsInForce | None:
    """Stop rules and budget as people left them."""
    ending = history.result.ending if history.result is not None else None
    limits = ending.limits if ending is not None else next((one.limits for one in reversed(history.rounds)), None)
    spec = history.spec
    return None if limits is None or (limits.stop, limits.budget) == (spec.stop, spec.budget) else limits


def _iterations(recorded: Sequence[RecordedIteration]) -> tuple[Iteration, ...]:
    return tuple(_iteration(one) for one in recorded)


def _iteration(one: RecordedIteration) -> Iteration:
    trial: dict[str, Any] = one.trial.model_dump()
    status = trial.pop("status")
    low, high = interval_of_score(one.score, one.sample_means or ()) or (None, None)
    return Iteration(
        number=one.iteration_number,
        round=one.round,
        candidate_id=one.candidate_id or "",
        config_hash=one.config_hash or "",
        configuration=one.factor_suit,
        parents=one.parents,
        rationale=one.rationale,
        extra=one.extra,
        split=one.dataset_split,
        statistics=one.statistics,
        score=one.score,
        low=low,
        high=high,
        status=one.status,
        failure_reason=one.failure_reason,
        started_at=one.start_time,
        ended_at=one.end_time,
        sample_means=one.sample_means,
        answers=one.answers,
        evidence=one.evidence,
        looks=one.looks,
        trial_status=status,
        **trial,
    )
