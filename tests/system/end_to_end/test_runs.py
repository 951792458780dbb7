"""A run from start to end, as a Temporal client sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowUpdateFailedError

from clients.reports.history.write import history_of
from clients.reports.load import facts_of
from store.read.reader import StoreReader
from tests.support.engines import Engines
from tests.support.run_views import eventually, failure_of

Spec = Callable[..., dict[str, Any]]


async def test_a_run_improves_the_baseline_and_tells_the_difference(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(stop={"max_rounds": 12, "no_improvement": 0}))
    assert result["status"] == "completed"
    assert result["stop_reason"] == "max_rounds"
    assert result["best_score"] > result["baseline_score"]
    assert result["changes"]["x"]["before"] == 10
    assert result["changes"]["x"]["after"] == result["best_configuration"]["x"] > 10
    assert result["counts"]["completed"] == 13
    assert result["spend"] == {"samples": 13 * 8, "trials": 13, "tokens": 13 * 80, "cost": pytest.approx(13 * 8 * 0.001)}


async def test_the_same_spec_gives_the_same_run(engines: Engines, spec: Spec) -> None:
    one = await engines.run(spec(name="one"))
    other = await engines.run(spec(name="other"))
    assert one["best_config_hash"] == other["best_config_hash"]
    assert one["best_candidate_id"] == other["best_candidate_id"]
    assert one["best_score"] == other["best_score"]
    third = await engines.run(spec(name="third", seed=8))
    assert third["best_config_hash"] != one["best_config_hash"]


async def test_order_of_completion_decides_nothing(engines: Engines, spec: Spec) -> None:
    wide = {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 4}
    one = await engines.run(spec(optimizer=wide, execution={"concurrent_trials": 4}))
    other = await engines.run(spec(optimizer=wide, execution={"concurrent_trials": 1}))
    assert one["best_candidate_id"] == other["best_candidate_id"]
    assert one["counts"] == other["counts"]


async def test_continue_as_new_changes_no_decision(engines: Engines, spec: Spec) -> None:
    rounds = {"max_rounds": 9, "no_improvement": 0}
    whole = await engines.run(spec(name="whole", stop=rounds))
    cut = await engines.start(spec(name="cut", stop=rounds, execution={"max_rounds_per_execution": 2}))
    result = await cut.result()
    assert result["best_candidate_id"] == whole["best_candidate_id"]
    assert result["counts"] == whole["counts"]
    assert result["spend"] == whole["spend"]
    assert (await cut.query("progress"))["executions"] == 5


async def test_several_factors_change_and_all_of_them_may(engines: Engines, spec: Spec) -> None:
    configuration = {
        "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000},
        "style": {"value": "plain", "change": "structured", "type": "choice", "choices": ["plain", "rich", "terse"]},
        "steps": {"value": ["a", "b", "c"], "change": "structured", "type": "order"},
        "careful": {"value": False, "change": "structured", "type": "flag"},
    }
    result = await engines.run(spec(configuration=configuration, stop={"max_rounds": 15, "no_improvement": 0}))
    assert result["status"] == "completed"
    rows = await changed_factors(engines, result["optimization_id"])
    assert rows == {"x", "style", "steps", "careful"}


async def changed_factors(engines: Engines, run_id: str) -> set[str]:
    async with engines.database.connection() as connection:
        rows = await connection.fetch("SELECT extra::text AS extra FROM candidates WHERE run_id = $1 AND round > 0", run_id)
    return {name for row in rows for name in ("x", "style", "steps", "careful") if f'"{name}"' in row["extra"]}


async def test_stop_early_finishes_what_is_in_flight_and_keeps_the_best(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    gated = spec(
        configuration={**spec()["configuration"], "gate": str(tmp_path / "gate")},
        target={"kind": "python", "ref": "plugged:waits_for_a_file"},
        stop={"max_rounds": 1000, "no_improvement": 0},
    )
    handle = await engines.start(gated)
    await eventually(lambda shown: shown["phase"] == "measuring the baseline", handle)
    await handle.signal("stop_early", "seen enough")
    (tmp_path / "gate").touch()
    result = await handle.result()
    assert (result["status"], result["stop_reason"]) == ("completed", "stopped_early")
    assert result["message"] == "Stopped early: seen enough"
    assert result["counts"]["completed"] == 1
    assert result["best_score"] == result["baseline_score"]


async def test_cancel_keeps_the_partial_history_and_the_best(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(stop={"max_rounds": 100_000, "no_improvement": 0}))
    seen = await eventually(lambda shown: shown["round"] >= 3, handle)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
    async with engines.database.connection() as connection:
        run = await connection.fetchrow("SELECT * FROM runs WHERE run_id = $1", handle.id)
        trials = await connection.fetch("SELECT status FROM trials WHERE run_id = $1", handle.id)
    assert run is not None
    assert (run["status"], run["stop_reason"]) == ("cancelled", "cancelled")
    assert run["best_score"] >= seen["best_score"]
    assert len(trials) >= 4
    assert "running" not in {trial["status"] for trial in trials}


async def test_cancel_hands_back_the_answers_of_a_trial_in_flight(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    items = [{"id": f"s{n}", "input": n} for n in range(8)]
    handle = await engines.start(
        spec(
            configuration={**spec()["configuration"], "gate": str(gate)},
            target={"kind": "python", "ref": "plugged:waits_for_a_file"},
            dataset={"items": items, "splits": "none"},
        )
    )
    await eventually(lambda shown: shown["phase"] == "measuring the baseline", handle)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    async with engines.database.connection() as connection:
        trial = await connection.fetchrow("SELECT status FROM trials WHERE run_id = $1", handle.id)
    assert trial is None or trial["status"] == "cancelled"


async def test_a_cancelled_run_has_spent_what_its_trials_in_flight_were_paid(
    engines: Engines, spec: Spec, tmp_path: Path
) -> None:
    """Some answers are there, others never come: neither the workflow nor the store forgets the first, or hides the others."""
    gate = tmp_path / "gate"
    handle = await engines.start(
        spec(
            configuration={**spec()["configuration"], "gate": str(gate)},
            target={"kind": "python", "ref": "plugged:half_waits"},
            dataset={"items": [{"input": n} for n in range(8)], "splits": "none"},
        )
    )
    answered = "SELECT count(*) FROM answers WHERE run_id = $1"
    async with engines.database.connection() as connection, asyncio.timeout(60):
        while await connection.fetchval(answered, handle.id) < 4:
            await asyncio.sleep(0.02)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    async with engines.database.connection() as connection:
        run = await connection.fetchrow("SELECT paid_samples, paid_trials, result FROM runs WHERE run_id = $1", handle.id)
        book = await connection.fetchrow("SELECT spent_samples, lost_samples FROM budgets WHERE run_id = $1", handle.id)
        paid = await connection.fetchval(answered, handle.id)
    assert run is not None
    assert book is not None
    assert (run["paid_samples"], run["paid_trials"], book["spent_samples"], paid) == (4, 1, 4, 4)
    told = json.loads(run["result"])
    assert (told["spend"]["samples"], told["lost"]["samples"], book["lost_samples"]) == (4, 4, 4)


async def test_calls_that_the_end_of_the_runs_time_cuts_off_are_told(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    """Trials of several shards, each of them with a call that never answers."""
    handle = await engines.start(
        spec(
            configuration={**spec()["configuration"], "gate": str(tmp_path / "gate")},
            target={"kind": "python", "ref": "plugged:half_waits"},
            dataset={"items": [{"input": n} for n in range(8)], "splits": "none"},
            execution={"samples_per_shard": 2},
            budget={"wall_time": "2s"},
        )
    )
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    async with engines.database.connection() as connection:
        told = json.loads(await connection.fetchval("SELECT result FROM runs WHERE run_id = $1", handle.id))
    assert (told["status"], told["spend"]["samples"], told["lost"]["samples"]) == ("failed", 4, 4)


async def test_a_run_that_is_cancelled_at_once_leaves_no_open_row(engines: Engines, spec: Spec) -> None:
    handles = [await engines.start(spec(name="at-once")) for _ in range(8)]
    for handle in handles:
        await handle.cancel()
    for handle in handles:
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    async with engines.database.connection() as connection:
        rows = await connection.fetch("SELECT status FROM runs WHERE run_id = ANY($1)", [handle.id for handle in handles])
    assert {row["status"] for row in rows} <= {"cancelled"}


async def test_a_cancellation_is_not_lost_while_the_run_is_prepared(engines: Engines, spec: Spec) -> None:
    """The row is being written when the cancellation comes: the write is waited for, and the cancellation still counts."""
    items = [{"input": n} for n in range(4000)]
    for _ in range(6):
        handle = await engines.start(spec(name="early", dataset={"items": items, "splits": "none"}))
        await handle.execute_update("adjust", {"max_rounds": 3})
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED


async def test_pause_rests_before_the_next_round_and_resume_goes_on(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(stop={"max_rounds": 40, "no_improvement": 0}))
    answer = await handle.execute_update("pause")
    assert "pausing" in answer["message"]
    paused = await eventually(lambda shown: shown["status"] == "paused", handle)
    async with engines.database.connection() as connection:
        assert await connection.fetchval("SELECT status FROM runs WHERE run_id = $1", handle.id) == "paused"
    assert (await handle.query("progress"))["round"] == paused["round"]
    await handle.execute_update("resume")
    result = await handle.result()
    assert result["counts"]["completed"] == 41


async def test_adjust_changes_the_stop_rules_of_a_running_run(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(stop={"max_rounds": 100_000, "no_improvement": 0}))
    await handle.execute_update("adjust", {"max_rounds": 5, "concurrent_samples": 3})
    result = await handle.result()
    assert result["stop_reason"] == "max_rounds"
    assert result["rounds"] >= 5


async def test_an_adjustment_that_changes_nothing_is_refused(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(stop={"max_rounds": 100_000, "no_improvement": 0}))
    for bad in ({}, {"budget": {"cost": -1}}, {"concurrent_trials": 0}, {"nonsense": 1}):
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update("adjust", bad)
    await handle.signal("stop_early")
    assert (await handle.result())["status"] == "completed"


async def test_a_person_may_propose_and_is_refused_with_a_reason(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(stop={"max_rounds": 30, "no_improvement": 0}))
    await handle.execute_update("pause")
    await eventually(lambda shown: shown["status"] == "paused", handle)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("propose", {"configuration": {"x": 5000}})
    assert "outside 0 … 1000" in str(refused.value.cause)
    await handle.execute_update("propose", {"configuration": {"x": 700}, "rationale": "the top"})
    await handle.execute_update("resume")
    result = await handle.result()
    assert result["best_configuration"]["x"] == 700


async def test_queries_answer_from_bounded_state(engines: Engines, spec: Spec) -> None:
    again = {"name": "refine", "proposer": {"kind": "noop"}}
    rounds = {"max_rounds": 101, "no_improvement": 0}
    handle = await engines.start(spec(stop=rounds, dataset={"items": [{"input": 1}], "splits": "none"}, optimizer=again))
    await handle.result()
    progress = await handle.query("progress")
    assert progress["counts"]["completed"] == 102
    assert {"spend", "budget", "stop_rules", "seconds_left", "versions", "trials_per_hour"} <= set(progress)
    trials = await handle.query("trials")
    assert (trials["total"], trials["shown"]) == (102, 100)
    graph = await handle.query("graph")
    assert len(graph["nodes"]) == 100
    assert all(edge["from"] and edge["to"] for edge in graph["edges"])
    history = await handle.query("history")
    assert history["items"][-1]["stopped"] is True
    assert sum(item["stopped"] for item in history["items"]) == 1
    assert (await handle.query("rejections"))["total"] == progress["counts"]["rejected"]


async def test_a_failed_baseline_fails_the_run_and_shows_the_first_error(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(target={"kind": "python", "ref": "plugged:raises"}))
    failure = await failure_of(handle)
    assert failure.type == "baseline_failed"
    assert "no answer to s" in failure.message
    async with engines.database.connection() as connection:
        run = await connection.fetchrow("SELECT status, stop_reason, message FROM runs WHERE run_id = $1", handle.id)
    assert run is not None
    assert (run["status"], run["stop_reason"]) == ("failed", "baseline_failed")


async def test_failing_candidates_count_as_the_worst_score(engines: Engines, spec: Spec) -> None:
    result = await engines.run(
        spec(target={"kind": "python", "ref": "plugged:raises_above"}, stop={"max_rounds": 5, "no_improvement": 0})
    )
    assert result["status"] == "completed"
    assert result["best_score"] == result["baseline_score"] == 0.5


async def test_a_python_proposer_climbs(engines: Engines, spec: Spec) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:climb"}}
    result = await engines.run(spec(optimizer=optimizer))
    assert result["best_configuration"]["x"] == 10 + 4 * 40


async def test_a_proposer_that_keeps_failing_ends_the_run_with_its_reason(engines: Engines, spec: Spec) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:wild_proposer"}}
    result = await engines.run(spec(optimizer=optimizer, stop={"max_rounds": 50}))
    assert result["stop_reason"] == "convergence"
    assert result["counts"]["rejected"] == 3


async def test_the_no_op_mutator_is_an_a_a_test_with_fresh_answers(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(optimizer={"name": "refine", "proposer": {"kind": "noop"}}))
    assert result["counts"]["completed"] == 5
    assert result["spend"]["samples"] == 5 * 8
    assert result["changes"] == {}


async def test_budgets_are_not_overshot(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec(budget={"samples": 30}, stop={"max_rounds": 100, "no_improvement": 0}))
    assert result["stop_reason"] == "sample_budget"
    assert result["spend"]["samples"] == 24
    result = await engines.run(spec(budget={"trials": 3}, stop={"max_rounds": 100, "no_improvement": 0}))
    assert result["spend"]["trials"] == 3
    result = await engines.run(spec(budget={"tokens": 250}, stop={"max_rounds": 100, "no_improvement": 0}))
    assert (result["stop_reason"], result["spend"]["tokens"]) == ("token_budget", 240)
    result = await engines.run(spec(budget={"cost": 0.025}, stop={"max_rounds": 100, "no_improvement": 0}))
    assert result["stop_reason"] == "cost_budget"
    assert result["spend"]["cost"] <= 0.025


async def test_the_time_budget_cuts_a_trial_in_flight(engines: Engines, spec: Spec, tmp_path: Path) -> None:
    handle = await engines.start(
        spec(
            configuration={**spec()["configuration"], "gate": str(tmp_path / "never")},
            target={"kind": "python", "ref": "plugged:waits_for_a_file"},
            budget={"wall_time": "1s"},
        )
    )
    failure = await failure_of(handle)
    assert failure.type == "baseline_failed"
    assert "time budget" in failure.message


async def test_the_time_budget_cuts_a_proposer_in_flight(engines: Engines, spec: Spec) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:thinks_for_ever"}}
    result = await engines.run(spec(optimizer=optimizer, budget={"wall_time": "6s"}))
    assert (result["status"], result["stop_reason"], result["rounds"]) == ("completed", "time_budget", 0)
    assert result["message"] == "Time budget exhausted: 6000ms, in round 1: new values for x"
    assert result["best_score"] == result["baseline_score"], "what was measured in time counts"


async def test_a_time_budget_that_is_given_meanwhile_cuts_a_proposer_in_flight(engines: Engines, spec: Spec) -> None:
    optimizer = {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:thinks_for_ever"}}
    handle = await engines.start(spec(optimizer=optimizer))
    await eventually(lambda shown: shown["phase"] == "round 1: proposing", handle)
    await handle.execute_update("adjust", {"budget": {"wall_time": "1s"}})
    assert (await handle.result())["stop_reason"] == "time_budget"


async def test_plug_ins_say_what_they_are_and_a_policy_of_ones_own_ends_the_run(engines: Engines, spec: Spec) -> None:
    result = await engines.run(
        spec(
            optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "plugged:described_climb"}},
            objective={"kind": "python", "metric": "height", "ref": "plugged:described_height"},
            stop={"max_rounds": 4, "policy": "plugged:enough"},
        )
    )
    assert (result["stop_reason"], result["message"]) == ("algorithm_specific", "3 were kept by round 2")
    assert (result["rounds"], result["ending"]["by"]) == (2, "policy")
    report = await StoreReader(engines.database).runs.report(result["optimization_id"])
    assert report is not None
    history = history_of(facts_of(report))
    assert (history.scorer_description, history.mutator_description) == ("how high it gets", "forty steps up")
    assert history.termination_policy_description.endswith(" OR no more than two rounds")
    assert "stop policy plugged:enough" in history.versions


async def test_winner_and_baseline_are_confirmed_once_on_the_test_split(engines: Engines, spec: Spec) -> None:
    items = [{"id": f"s{n}", "input": n} for n in range(20)]
    result = await engines.run(spec(dataset={"items": items, "splits": {"validation": 0.5, "test": 0.5}}))
    confirmation = result["confirmation"]
    evidence = confirmation["judged"]["evidence"]
    gain = confirmation["winner_score"] - confirmation["baseline_score"]
    assert evidence["n"] == 10 and evidence["reference"].startswith("r0-")
    assert evidence["effect"] == pytest.approx(gain)
    assert confirmation["promised"] == pytest.approx(result["best_score"] - result["baseline_score"])
    assert confirmation["optimism"] == pytest.approx(confirmation["promised"] - gain)
    assert confirmation["judged"]["verdict"] == "better"
    assert confirmation["explanation"].startswith("confirmed on held-back samples: better than r0-")
    async with engines.database.connection() as connection:
        confirmations = await connection.fetch(
            "SELECT candidate_id FROM trials WHERE run_id = $1 AND purpose = 'confirmation'", result["optimization_id"]
        )
    assert len(confirmations) == 2


async def test_every_decision_is_in_the_store_and_events_are_in_order(engines: Engines, spec: Spec) -> None:
    result = await engines.run(spec())
    run_id = result["optimization_id"]
    async with engines.database.connection() as connection:
        rounds = await connection.fetch("SELECT * FROM rounds WHERE run_id = $1 ORDER BY round", run_id)
        trials = await connection.fetch("SELECT * FROM trials WHERE run_id = $1 ORDER BY round", run_id)
        events = await connection.fetch("SELECT * FROM events WHERE run_id = $1 ORDER BY id", run_id)
        outcomes = await connection.fetchval("SELECT count(*) FROM outcomes WHERE run_id = $1", run_id)
    assert [row["round"] for row in rounds] == [0, 1, 2, 3, 4]
    assert [row["stopped"] for row in rounds] == [False] * 4 + [True]
    assert len(trials) == 5
    assert outcomes == 5 * 8
    best = [row["best_so_far"] for row in rounds]
    assert best == sorted(best)
    types = [event["type"] for event in events]
    assert types[0] == "run_status_changed"
    assert types[-1] == "run_finished"
    assert {"trial_added_or_updated", "progress_changed", "best_candidate_changed"} <= set(types)
    assert len({event["event_key"] for event in events}) == len(events)
