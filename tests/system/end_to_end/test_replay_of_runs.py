"""`ratchet replay` over runs that ended in every way: what they decided follows from what is stored, exported, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle

from clients.replay.temporal_histories import replay_histories
from clients.runs.answered_run import answered_run
from store.read.reader import StoreReader
from tests.support.coin_runs import coins
from tests.support.engines import Engines
from tests.support.optimizer_specs import REFLECTING
from tests.support.plugins.ruled import items
from tests.support.replaying import differences_in_export, nothing_differs
from workflows.model.spec.request import OptimizationRequest

WEIGHTED = {"items": [{"id": f"s{n}", "input": n, "weight": 1 + n % 3} for n in range(24)], "splits": "none"}
HELD_BACK = {"items": [{"id": f"s{n}", "input": n, "tags": ["vip"] if n < 3 else []} for n in range(60)], "splits": "none"}
SPLITS = {"splits": {"validation": 0.6, "test": 0.4}}
STEPS = {"name": "refine", "proposer": {"kind": "step"}}


def stepping(**parts: Any) -> dict[str, Any]:
    """Coins that a step proposer tries one after the other."""
    skill = {"value": 0.4, "change": "structured", "type": "number", "min": 0, "max": 1, "step": 0.2}
    given: dict[str, Any] = {"optimizer": STEPS, "configuration": {"skill": skill}, "judgement": {}}
    return coins(**{**given, "stop": {"max_rounds": 4, "no_improvement": 0}, "dataset": HELD_BACK, **parts})


ENDINGS: dict[str, tuple[dict[str, Any], str]] = {
    "rounds": (stepping(), "max_rounds"),
    "a target score": (stepping(stop={"max_rounds": 9, "no_improvement": 0, "score": 0.45}), "target_reached"),
    "no improvement": (stepping(stop={"max_rounds": 50, "no_improvement": 2, "min_delta": 0.2}), "no_improvement"),
    "samples": (stepping(budget={"samples": 200}, stop={"max_rounds": 9, "no_improvement": 0}), "sample_budget"),
    "cost": (stepping(budget={"cost": 0.2}, stop={"max_rounds": 9, "no_improvement": 0}), "cost_budget"),
    "tokens in a trial": (
        stepping(
            budget={"tokens": 1500},
            target={"kind": "python", "ref": "plugged:dearer_above", "at_most": {"tokens": 40}},
            configuration={"x": {"value": 10, "change": "structured", "type": "integer", "min": 10, "max": 900, "step": 50}},
        ),
        "token_budget",
    ),
    "trials": (stepping(budget={"trials": 3}), "sample_budget"),
    "time": (
        stepping(
            budget={"wall_time": "2s"},
            target={"kind": "python", "ref": "plugged:slow_hill"},
            dataset={**HELD_BACK},
            configuration={"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 900, "step": 50}},
            stop={"max_rounds": 500, "no_improvement": 0},
            execution={"concurrent_samples": 20},
        ),
        "time_budget",
    ),
    "nothing new": (
        coins(
            optimizer=STEPS,
            stop={"max_rounds": 99, "no_improvement": 0},
            judgement={},
            dataset=HELD_BACK,
            configuration={"skill": {"value": 0.5, "change": "structured", "type": "choice", "choices": [0.5, 0.9]}},
        ),
        "convergence",
    ),
    "failed trials": (
        stepping(
            target={"kind": "python", "ref": "plugged:raises_above"},
            scorers=[{"kind": "python", "name": "height", "ref": "plugged:height"}],
            configuration={"x": {"value": 10, "change": "structured", "type": "integer", "min": 10, "max": 900, "step": 50}},
            execution={"min_coverage": 1.0},
        ),
        "max_rounds",
    ),
    "a proposer that fails": (
        stepping(optimizer={"name": "refine", "proposer": {"kind": "python", "ref": "plugged:raising_proposer"}}),
        "proposal_failure",
    ),
    "minimize": (stepping(objective={"metric": "height", "direction": "minimize"}), "max_rounds"),
    "weights": (stepping(dataset=WEIGHTED, replicates=2), "max_rounds"),
    "four at once": (
        stepping(optimizer={**STEPS, "candidates_per_round": 4}, judgement={"accept": "better", "racing": {"block": 8}}),
        "max_rounds",
    ),
    "strict": (stepping(judgement={"rule": "strict", "accept": "not_worse"}, replicates=3), "max_rounds"),
    "non-inferior by ranks": (
        stepping(judgement={"rule": "non_inferiority", "test": "mann_whitney", "accept": "not_worse"}),
        "max_rounds",
    ),
    "must pass and constraints": (
        stepping(
            judgement={
                "must_pass": {"tags": ["vip"], "flake_rate": 0.3},
                "constraints": ["cost <= 0.01", "tokens <= 1.1 x baseline", "p95 tokens <= 5"],
                "objectives": [{"measure": "cost", "direction": "minimize"}],
            }
        ),
        "max_rounds",
    ),
    "a confirmation": (stepping(dataset={**HELD_BACK, **SPLITS}, judgement={"baseline_replicates": 3}), "max_rounds"),
    "a confirmation that is not covered": (
        stepping(dataset={**HELD_BACK, **SPLITS}, budget={"trials": 3}, stop={"max_rounds": 3, "no_improvement": 0}),
        "sample_budget",
    ),
    "a success rate": (stepping(objective={"metric": "height", "kind": "success_rate"}), "max_rounds"),
    "efficiency": (stepping(objective={"metric": "height", "kind": "cost_efficiency"}), "max_rounds"),
    "an objective of one's own": (stepping(objective={"kind": "python", "ref": "plugged:mean_minus_spread"}), "max_rounds"),
    "several objectives in one": (
        stepping(
            objective={
                "kind": "weighted",
                "components": [{"kind": "mean", "weight": 0.7}, {"kind": "success_rate", "weight": 0.3}],
            }
        ),
        "max_rounds",
    ),
    "rests in between": (stepping(execution={"max_rounds_per_execution": 1}), "max_rounds"),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_every_end_follows_from_what_is_stored(engines: Engines, ending: str) -> None:
    spec, reason = ENDINGS[ending]
    result = await engines.run(spec)  # which goes through it again, from the store and from the file
    assert result["stop_reason"] == reason
    assert await differences_in_export(engines.database, result["optimization_id"], sample_means=False) == []


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"scorers": [{"kind": "python", "name": "height", "ref": "plugged:nan_score"}]}, "baseline_failed"),
        ({"target": {"kind": "python", "ref": "plugged:raises"}}, "baseline_failed"),
    ],
)
async def test_runs_that_fail_are_gone_through_as_far_as_they_went(
    engines: Engines, broken: dict[str, Any], reason: str
) -> None:
    handle = await engines.start(stepping(**broken))
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    report = await StoreReader(engines.database).runs.report(handle.id)
    assert report is not None and report.run.stop_reason == reason
    await nothing_differs(engines.database, handle.id)


async def in_round(handle: WorkflowHandle[Any, Any], number: int) -> None:
    async with asyncio.timeout(60):
        while (await handle.query("progress"))["round"] < number:
            await asyncio.sleep(0.01)


async def stopped(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.signal("stop_early", "enough")


async def cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.cancel()


async def given_more(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.execute_update("adjust", {"max_rounds": 6, "budget": {"cost": 5.0}})
    await handle.execute_update("propose", {"configuration": {"x": 650}})


async def paused_and_given_less(handle: WorkflowHandle[Any, Any]) -> None:
    await handle.execute_update("pause")
    async with asyncio.timeout(60):
        while (await handle.query("progress"))["status"] != "paused":
            await asyncio.sleep(0.01)
    await handle.execute_update("adjust", {"max_rounds": 1})
    await handle.execute_update("resume")


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        (stopped, "stopped_early"),
        (cancelled, "cancelled"),
        (given_more, "max_rounds"),
        (paused_and_given_less, "max_rounds"),
    ],
)
async def test_what_people_do_to_a_run_is_taken_as_it_was(
    engines: Engines, deed: Callable[[WorkflowHandle[Any, Any]], Awaitable[None]], reason: str
) -> None:
    spec = {
        **stepping(dataset=HELD_BACK, optimizer={**STEPS, "candidates_per_round": 2}),
        "configuration": {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 900, "step": 50}},
        "target": {"kind": "python", "ref": "plugged:slow_hill"},
        "execution": {"concurrent_samples": 30},
    }
    handle = await engines.start(spec)
    await in_round(handle, 1)
    await deed(handle)
    try:
        await handle.result()
    except WorkflowFailureError:
        assert reason == "cancelled"
    report = await StoreReader(engines.database).runs.report(handle.id)
    assert report is not None and report.run.stop_reason == reason
    await nothing_differs(engines.database, handle.id)


async def test_temporals_own_histories_replay_and_say_the_same_as_the_store(engines: Engines) -> None:
    result = await engines.run(stepping(execution={"max_rounds_per_execution": 2}))
    run_id = result["optimization_id"]
    report = await StoreReader(engines.database).runs.report(run_id)
    assert report is not None and report.run.result is not None
    replayed = await replay_histories(engines.client, run_id, report.run.result)
    assert (replayed.failures, replayed.differences, replayed.missing) == ([], [], None)
    assert (replayed.executions, replayed.trials) == (2, len(report.trials))
    told = report.run.result.model_copy(update={"message": "Found by hand"})
    assert [one.field for one in (await replay_histories(engines.client, run_id, told)).differences] == ["result.message"]


async def test_a_history_that_the_code_does_not_go_along_with_is_named(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await engines.run(stepping(stop={"max_rounds": 1, "no_improvement": 0}))
    monkeypatch.setattr("workflows.trial.LOCAL_STORE", {"start_to_close_timeout": None})
    replayed = await replay_histories(engines.client, result["optimization_id"], None)
    assert len(replayed.failures) == replayed.trials == 2
    assert result["optimization_id"] in replayed.failures[0]


async def test_rejections_of_a_round_that_the_budget_ended_count(engines: Engines) -> None:
    """Nothing of it was let in, so the round was never decided."""
    data = {"items": items(30), "splits": {"train": 0.5, "validation": 0.5}}
    execution = {"concurrent_samples": 6, "samples_per_shard": 10}
    given = {
        **REFLECTING,
        "name": "refused",
        "dataset": data,
        "budget": {"samples": 120},
        "execution": execution,
        "seed": 258868,
    }
    result = await engines.run(given)
    assert (result["rounds"], result["stop_reason"]) == (0, "sample_budget")
    assert (result["counts"]["proposed"], result["counts"]["rejected"]) == (2, 2)


async def test_what_parts_had_a_winner_measured_in_full_confirms_nothing_in_run_store_and_export(engines: Engines) -> None:
    """Cross-fitting leaves out the answers that the winner was measured in full for, wherever it is computed, and also where
    these answers are scored anew."""
    spec = {**REFLECTING, "name": "by-parts", "dataset": {"items": items(40)}}
    result = await engines.run(spec)
    run_id, confirmation = result["optimization_id"], result["confirmation"]
    assert confirmation["how"] == "cross_fitting"
    async with engines.database.connection() as connection:
        looked_at = await connection.fetchval(
            """
            SELECT sum(part.samples) FROM trials part JOIN trials winner USING (run_id, config_hash, split)
            WHERE run_id = $1 AND winner.candidate_id = $2 AND winner.purpose = 'candidate' AND part.purpose = 'exploration'
              AND part.round <= winner.round
            """,
            run_id,
            result["best_candidate_id"] if confirmation["holds"] else result["unproven"]["candidate_id"],
        )
    evidence = confirmation["judged"]["evidence"]
    assert 0 < looked_at < 40
    assert evidence["better"] + evidence["worse"] <= 40 - looked_at
    await nothing_differs(engines.database, run_id)

    source = await answered_run(StoreReader(engines.database), run_id)
    anew = source.scored_by(OptimizationRequest.model_validate(spec))
    rescored = await engines.run(anew.model_dump(mode="json", by_alias=True))
    assert rescored["confirmation"]["judged"]["evidence"] == evidence
    await nothing_differs(engines.database, rescored["optimization_id"])
