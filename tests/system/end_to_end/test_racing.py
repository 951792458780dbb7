"""Trials that race: looked at after every block of samples, and over when more of them would decide nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowFailureError

from tests.support.activity_targets import theirs
from tests.support.coin_runs import RACING, SAMPLES, SKILL, coins, trials_of
from tests.support.engines import Engines
from tests.support.patience import PATIENCE_SECONDS
from tests.support.replaying import nothing_differs

TONE = {"value": "plain", "change": "structured", "type": "choice", "choices": ["plain", "formal"]}


async def children_of(engines: Engines, run_id: str) -> list[str]:
    found = engines.client.list_workflows(f"WorkflowType = 'TrialWorkflow' AND WorkflowId STARTS_WITH '{run_id}/'")
    return sorted([trial.id async for trial in found])


async def test_hopeless_candidates_stop_early_keep_what_was_answered_and_say_why(engines: Engines) -> None:
    result = await engines.run(coins(0.1, 0.9))
    trials = await trials_of(engines, result["optimization_id"])
    bad, good = trials[0.1], trials[0.9]
    assert bad["status"] == "completed"
    assert bad["stopped_early"].startswith("futile after ")
    assert bad["total"] < SAMPLES / 2 and bad["total"] % 16 == 0
    assert [mean is None for mean in bad["sample_means"]] == [False] * bad["total"] + [True] * (SAMPLES - bad["total"])
    looks = json.loads(bad["looks"])
    assert [look["go_on"] for look in looks] == [True] * (len(looks) - 1) + [False]
    assert len(looks) == bad["total"] / 16
    decision = json.loads(bad["judged"])
    assert (decision["verdict"], decision["kept"]) == ("inconclusive", False)
    assert decision["explanation"] == f"dropped: stopped early, {bad['stopped_early']}"
    assert result["best_configuration"] == {"skill": 0.9}
    assert (good["total"], good["stopped_early"]) == (SAMPLES, None)


async def test_a_certain_regression_is_called_worse(engines: Engines) -> None:
    configuration = {"skill": {"value": 0.95, "change": "structured", "type": "number", "min": 0, "max": 1}}
    result = await engines.run(coins(0.0, configuration=configuration))
    [bad] = (await trials_of(engines, result["optimization_id"])).values()
    assert bad["stopped_early"].startswith("certainly worse after 16 of 120 samples: gain over r0-")
    assert json.loads(bad["judged"])["verdict"] == "worse"
    assert result["best_candidate_id"].startswith("r0-")


async def test_racing_decides_like_full_evaluation_for_fewer_calls(engines: Engines) -> None:
    skills = (0.1, 0.2, 0.3, 0.8, 0.95)
    full = await engines.run(coins(*skills, judgement={}))
    raced = await engines.run(coins(*skills))
    assert raced["best_configuration"] == full["best_configuration"]
    assert raced["best_score"] == full["best_score"]
    assert full["spend"]["samples"] == 6 * SAMPLES
    assert raced["spend"]["samples"] <= 0.6 * full["spend"]["samples"]
    answers = sum(row["total"] for row in (await trials_of(engines, raced["optimization_id"])).values())
    assert raced["spend"]["samples"] == SAMPLES + answers


async def test_of_clear_winners_only_the_best_is_measured_in_full(engines: Engines) -> None:
    result = await engines.run(coins(0.85, 0.95, judgement={**RACING, "accept": "better"}))
    trials = await trials_of(engines, result["optimization_id"])
    best, other = trials[0.95], trials[0.85]
    assert result["best_configuration"] == {"skill": 0.95}
    assert (best["total"], best["stopped_early"]) == (SAMPLES, None)
    assert result["best_score"] == best["score"]
    assert other["stopped_early"].startswith("certainly good enough after ")
    assert other["total"] < SAMPLES
    assert json.loads(other["judged"])["verdict"] == "better"
    assert json.loads(best["looks"])[-1]["reason"] == "win"  # how its race went is not forgotten
    rest = [name for name in await children_of(engines, result["optimization_id"]) if name.endswith("/rest")]
    assert rest == [f"{best['trial_id']}/rest"]
    assert result["spend"]["samples"] == 2 * SAMPLES + other["total"]
    assert result["spend"]["trials"] == 3


async def test_a_run_that_is_cancelled_while_its_best_is_measured_in_full_ends_and_has_spent_what_that_took(
    engines: Engines,
) -> None:
    before = await engines.run(coins(0.95))
    async with engines.database.connection() as connection, asyncio.timeout(PATIENCE_SECONDS):
        last = await connection.fetch(
            "SELECT item_id FROM suite_samples JOIN suites USING (run_id, split) JOIN samples USING (dataset_id, item_hash)"
            " WHERE run_id = $1 ORDER BY suite_samples.position DESC LIMIT 8",
            before["optimization_id"],
        )
        handle = await engines.start(
            coins(
                0.95,
                target={"kind": "python", "ref": "plugged:coin_that_waits"},
                configuration={"skill": SKILL, "never": [row["item_id"] for row in last]},
                judgement={**RACING, "accept": "better"},
            )
        )
        while await connection.fetchval("SELECT count(*) FROM answers WHERE run_id = $1", handle.id) < SAMPLES + 112:
            await asyncio.sleep(0.02)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        run = await connection.fetchrow("SELECT status, paid_samples, result FROM runs WHERE run_id = $1", handle.id)
    assert run is not None
    [best] = (await trials_of(engines, handle.id)).values()
    assert [name for name in await children_of(engines, handle.id) if name.endswith("/rest")] == [f"{best['trial_id']}/rest"]
    assert (run["status"], run["paid_samples"]) == ("cancelled", SAMPLES + 112)
    assert json.loads(run["result"])["spend"]["samples"] == SAMPLES + 112
    await nothing_differs(engines.database, handle.id)


async def test_a_blocks_replicates_belong_together(engines: Engines) -> None:
    result = await engines.run(coins(0.1, replicates=3))
    [bad] = (await trials_of(engines, result["optimization_id"])).values()
    assert bad["stopped_early"] is not None
    async with engines.database.connection() as connection:
        answered = await connection.fetch(
            "SELECT item_hash, count(*) AS replicates FROM outcomes WHERE run_id = $1 AND config_hash = $2 GROUP BY item_hash",
            result["optimization_id"],
            bad["config_hash"],
        )
    assert {row["replicates"] for row in answered} == {3}
    assert len(answered) * 3 == bad["total"]


@pytest.mark.parametrize("shard", [5, 16, 40])
async def test_the_size_of_shards_changes_nothing(engines: Engines, shard: int) -> None:
    result = await engines.run(coins(0.15, 0.45, 0.9, execution={"samples_per_shard": shard}))
    trials = await trials_of(engines, result["optimization_id"])
    told = [(skill, row["total"], row["stopped_early"], row["score"]) for skill, row in sorted(trials.items())]
    alike = await engines.run(coins(0.15, 0.45, 0.9))
    others = await trials_of(engines, alike["optimization_id"])
    assert told == [(skill, row["total"], row["stopped_early"], row["score"]) for skill, row in sorted(others.items())]


async def test_a_dataset_of_one_block_has_nothing_to_race_over(engines: Engines) -> None:
    result = await engines.run(coins(0.1, dataset={"items": [{"input": n} for n in range(16)], "splits": "none"}))
    [bad] = (await trials_of(engines, result["optimization_id"])).values()
    assert (bad["total"], bad["stopped_early"], json.loads(bad["looks"])) == (16, None, [])


async def test_the_baselines_own_replicates_sharpen_every_comparison_and_are_paid_once(engines: Engines) -> None:
    result = await engines.run(coins(0.6, judgement={"baseline_replicates": 3}, replicates=2))
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT replicates, total FROM trials WHERE run_id = $1 ORDER BY round", result["optimization_id"]
        )
    assert [tuple(row) for row in rows] == [(3, 3 * SAMPLES), (2, 2 * SAMPLES)]
    assert result["spend"]["samples"] == 5 * SAMPLES


async def test_a_second_try_of_the_baseline_is_given_answers_of_its_own(engines: Engines) -> None:
    noop = {"name": "refine", "proposer": {"kind": "noop"}}
    result = await engines.run(
        coins(optimizer=noop, judgement={"baseline_replicates": 3}, stop={"max_rounds": 2, "no_improvement": 0})
    )
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT first_replicate, replicates FROM trials WHERE run_id = $1 ORDER BY round", result["optimization_id"]
        )
    assert [tuple(row) for row in rows] == [(0, 3), (3, 1), (4, 1)]
    assert result["spend"]["samples"] == 5 * SAMPLES


async def test_a_budget_that_ends_within_a_race_ends_the_run_and_keeps_what_was_answered(engines: Engines) -> None:
    dear = {"kind": "python", "ref": "plugged:coin_dear_above_half", "at_most": {"tokens": 40}}
    result = await engines.run(coins(0.55, target=dear, budget={"tokens": 3600}))
    assert (result["status"], result["stop_reason"]) == ("completed", "token_budget")
    assert result["spend"]["tokens"] <= 3600
    [cut] = (await trials_of(engines, result["optimization_id"])).values()
    assert cut["status"] == "cancelled" and cut["exhausted"] == "tokens"
    assert cut["stopped_early"].startswith(f"the tokens budget is exhausted: {cut['total']} of ")
    looks = json.loads(cut["looks"])
    assert looks and all(look["go_on"] for look in looks)
    assert len(looks) * 16 <= cut["total"] < (len(looks) + 1) * 16
    assert result["best_candidate_id"].startswith("r0-")


async def test_a_search_races_its_suggestions_and_finds_the_best_for_fewer_calls(engines: Engines) -> None:
    """It learns from trials that were stopped, too."""
    spec = coins(optimizer={"name": "search"}, stop={"max_rounds": 6}, configuration={"skill": SKILL, "tone": TONE})
    raced = await engines.run(spec)
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT config_hash, total, stopped_early FROM trials WHERE run_id = $1 AND purpose = 'candidate'",
            raced["optimization_id"],
        )
    assert len({row["config_hash"] for row in rows}) == len(rows) == 6 * 4
    assert any(row["stopped_early"] for row in rows)
    assert all(row["total"] == SAMPLES or row["stopped_early"] for row in rows)
    assert raced["spend"]["samples"] == SAMPLES + sum(row["total"] for row in rows) < 0.8 * 25 * SAMPLES
    assert raced["best_configuration"]["skill"] > 0.85
    assert raced["importances"]["factors"][0]["factor"] == "skill"


async def test_a_race_that_continues_as_new_takes_its_looks_along(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it can: the looks, the stops and the calls are those of a trial in one execution."""
    asked: list[tuple[float, str]] = []

    def answer(call: dict[str, Any]) -> dict[str, Any]:
        skill, sample = call["configuration"]["skill"], call["sample"]["id"]
        asked.append((skill, sample))
        return {"value": {"height": float((int(sample[1:]) * 37) % 100 < skill * 100)}, "tokens": 1, "cost": 0.0}

    async def raced() -> tuple[list[Any], int, int]:
        asked.clear()
        async with theirs(engines, answer) as target:
            result = await engines.run(coins(0.1, 0.35, 0.95, target=target, execution={"concurrent_samples": 4}))
        run_id = result["optimization_id"]
        told = [
            (skill, row["total"], row["stopped_early"], row["looks"], row["score"])
            for skill, row in sorted((await trials_of(engines, run_id)).items())
        ]
        trials = engines.client.list_workflows(f"WorkflowType = 'TrialWorkflow' AND WorkflowId STARTS_WITH '{run_id}/'")
        return told, len(asked), len([trial async for trial in trials])

    at_once, calls, executions = await raced()
    monkeypatch.setattr("temporalio.workflow.Info.is_continue_as_new_suggested", _after_forty_events)
    in_pieces, calls_in_pieces, executions_in_pieces = await raced()
    assert executions_in_pieces > executions
    assert in_pieces == at_once
    assert calls_in_pieces == calls
    assert any(row[2] for row in in_pieces)


def _after_forty_events(info: workflow.Info) -> bool:
    return info.workflow_type == "TrialWorkflow" and info.get_current_history_length() > 40
