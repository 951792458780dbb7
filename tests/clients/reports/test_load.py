"""From the store's rows to iterations: what counts as one, how it is numbered, and what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clients.reports.facts import IterationStatus
from clients.reports.history.write import document_of, history_of
from clients.reports.load import facts_of
from clients.reports.text.boxes import box
from clients.reports.text.progress_lines import progress_lines
from clients.reports.text.summary import status_text
from store.read.rows.report_rows import RunReport
from store.read.rows.round_rows import Rejection, RoundRow
from store.read.rows.run_rows import RunDetail
from store.read.rows.trial_rows import TrialInFull
from tests.support.report_examples import STARTED, request
from workflows.model.run.candidates import ReasonCode
from workflows.model.run.rounds import Counts, RoundRecord, Spend
from workflows.model.run.run_result import OptimizationResult
from workflows.model.trial import Purpose, Split, TrialSummary


def trial(candidate: str, round: int, index: int = 0, **changes: Any) -> TrialInFull:
    given: dict[str, Any] = {
        "run_id": "run-1",
        "trial_id": f"run-1/{candidate}",
        "candidate_id": candidate,
        "experiment_id": f"run-1/{candidate}",
        "purpose": Purpose.CANDIDATE if round else Purpose.BASELINE,
        "config_hash": "00" * 32,
        "round": round,
        "index": index,
        "parent_candidate_ids": ("base",) if round else (),
        "rationale": None,
        "extra": {},
        "split": Split.VALIDATION,
        "samples": 20,
        "replicates": 1,
        "first_replicate": 0,
        "part": "",
        "first_sample": 0,
        "split_samples": 20,
        "evidence": (),
        "judged": None,
        "reused_samples": 0,
        "status": "completed",
        "score": 0.5,
        "coverage": 1.0,
        "summary": TrialSummary(
            total=20, passed=10, failed=10, pass_rate=0.5, total_tokens=900, avg_latency_ms=12.5, errors={"timeout": 2}
        ),
        "stopped_early": None,
        "error": None,
        "failure": None,
        "paid_samples": 20,
        "paid_tokens": 900,
        "paid_cost": 0.0,
        "duration_ms": 900,
        "started_at": STARTED,
        "finished_at": STARTED + timedelta(seconds=1),
        "configuration": {"model": "gpt-4", "systemPrompt": "Hi", "temperature": 0.7},
        "sample_means": (1.0, None),
    }
    return TrialInFull.model_validate({**given, **changes})


def report(*trials: TrialInFull, rounds: tuple[RoundRow, ...] = (), **changes: Any) -> RunReport:
    spec = request()
    given: dict[str, Any] = {
        "run_id": "run-1",
        "name": spec.name,
        "use_case": spec.name,
        "experiment": "run-1",
        "status": "running",
        "stop_reason": None,
        "message": "",
        "optimizer": "refine",
        "objective": "exact",
        "direction": "maximize",
        "round": 1,
        "counts": Counts(),
        "spend": Spend(),
        "baseline_candidate_id": "base",
        "baseline_score": 0.5,
        "best_candidate_id": "base",
        "best_score": 0.5,
        "started_at": STARTED,
        "updated_at": STARTED,
        "finished_at": None,
        "spec": spec.model_dump(mode="json", by_alias=True),
        "result": None,
        "dataset_id": "data",
        "dataset_name": "tickets",
        "dataset_count": 20,
        "evaluation_suite_id": "suite",
        "search_split": Split.VALIDATION,
        "limits": {},
        "task_queue": "optimization",
        "versions": {"ratchet": "0.1.0"},
        "life": 1,
    }
    rejection = Rejection(
        round=1,
        proposed_index=1,
        reason_code=ReasonCode.TOO_LONG,
        message="too long",
        config_hash=None,
        parent_candidate_ids=(),
    )
    run = RunDetail.model_validate({**given, **changes})
    return RunReport(run=run, rounds=rounds, trials=trials, rejections=(rejection,))


def test_iterations_are_the_trials_of_the_search_in_the_order_of_the_proposals() -> None:
    confirmation = trial("base", 0, purpose=Purpose.CONFIRMATION, split=Split.TEST)
    facts = facts_of(report(trial("b", 1, 2), confirmation, trial("a", 1, 0), trial("base", 0), trial("c", 2)))
    assert [(iteration.number, iteration.candidate_id) for iteration in facts.iterations] == [
        (0, "base"),
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]
    first = facts.iterations[1]
    assert first.parents == ("base",) and first.split == "validation" and first.sample_means == (1.0, None)
    assert first.statistics.model_dump() == {
        "sample_count": 20,
        "success_rate": 0.5,
        "total_tokens": 900,
        "mean_latency_ms": 12.5,
        "success_count": 10,
        "failure_count": 10,
        "total_cost": 0.0,
        "coverage": 1.0,
        "errors": {"timeout": 2},
    }
    assert list(first.configuration) == ["model", "temperature", "systemPrompt"]  # as the spec has them
    assert facts.request == request() and facts.rejections[0].reason_code is ReasonCode.TOO_LONG


def test_adjusted_limits_are_shown_instead_of_those_of_the_spec() -> None:
    spec = request()
    budget = {**spec.budget.model_dump(mode="json"), "cost": 9.5, "wall_time": 7200.0}
    stop = {**spec.stop.model_dump(mode="json"), "max_rounds": 44}
    facts = facts_of(report(trial("base", 0), limits={"stop": stop, "budget": budget, "concurrent_samples": 3}))
    told = f"max_rounds {spec.stop.max_rounds} → 44, cost none → 9.5, wall_time none → 2h"
    assert f"Adjusted: {told}" in status_text(facts, STARTED)
    assert "of 9.5" in status_text(facts, STARTED)
    assert "Adjusted:" in box(facts) and "max_rounds" in box(facts)
    document = document_of(history_of(facts))
    assert document["components"]["stop"]["max_rounds"] == 44
    assert document["components"]["budget"]["cost"] == 9.5
    assert document["terminationPolicyDescription"].startswith("Max 45 iterations OR ")
    assert document["spec"]["stop"]["max_rounds"] == spec.stop.max_rounds
    unchanged = {"stop": spec.stop.model_dump(mode="json"), "budget": spec.budget.model_dump(mode="json")}
    assert facts_of(report(limits=unchanged)).adjusted is None


def test_an_iteration_waits_for_those_before_it_so_that_its_number_stays() -> None:
    running = trial("a", 1, 0, status="running", score=None, finished_at=None)
    before = facts_of(report(trial("base", 0), running, trial("b", 1, 1, score=0.9)))
    after = facts_of(report(trial("base", 0), trial("a", 1, 0), trial("b", 1, 1, score=0.9)))
    assert [iteration.candidate_id for iteration in before.iterations] == ["base"]
    assert progress_lines(before) + progress_lines(after, shown=len(before.iterations)) == progress_lines(after)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"status": "failed", "failure": "execution", "error": "no model"}, IterationStatus.EXECUTION_FAILED, "no model"),
        ({"status": "failed", "failure": "scoring", "error": "NaN"}, IterationStatus.SCORING_FAILED, "NaN"),
        ({"status": "failed"}, IterationStatus.EXECUTION_FAILED, "the trial failed"),
        ({"status": "timeout"}, IterationStatus.EXECUTION_FAILED, "timeout"),
        ({"status": "cancelled", "error": "the run ended"}, IterationStatus.EXECUTION_FAILED, "cancelled: the run ended"),
    ],
)
def test_what_failed_has_a_reason_and_no_score(changes: dict[str, Any], status: IterationStatus, reason: str) -> None:
    [iteration] = facts_of(report(trial("base", 0, **{"score": None, **changes}))).iterations
    assert (iteration.status, iteration.failure_reason, iteration.score) == (status, reason, None)


def test_rounds_come_back_as_recorded_with_the_end_that_was_stamped_later() -> None:
    record = RoundRecord(run_id="run-1", round=0, best_so_far=0.5, new_best=True, spend=Spend(samples=20), decided_at=STARTED)
    row = RoundRow(
        round=0,
        best_candidate_id="base",
        best_score=0.5,
        best_so_far_id="base",
        best_so_far=0.5,
        stop_reason="cancelled",
        stopped=True,
        extra={},
        record=record.model_dump(mode="json", exclude={"rejections"}),
        decided_at=STARTED,
    )
    result = OptimizationResult(optimization_id="run-1", status="cancelled", stop_reason="cancelled")
    facts = facts_of(report(trial("base", 0), rounds=(row,), result=result, status="cancelled"))
    assert facts.rounds == (record.model_copy(update={"stop_reason": "cancelled", "stopped": True}),)
