"""Budgets, reuse and retries in whole runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.demo.model_server import SimulatedModel
from tests.support.chatting_specs import chatting
from tests.support.engines import Engines
from tests.support.hill_specs import ENDLESS
from tests.support.run_views import eventually, failure_of, rows

Spec = Callable[..., dict[str, Any]]


async def test_a_trial_that_turns_out_too_dear_is_stopped_and_the_run_says_why(engines: Engines, spec: Spec) -> None:
    dear = {"kind": "python", "ref": "plugged:dearer_above", "at_most": {"cost": 0.004}}
    result = await engines.run(spec(name="dear", target=dear, budget={"cost": 0.02}, stop=ENDLESS))
    assert (result["status"], result["stop_reason"]) == ("completed", "cost_budget")
    assert result["message"] == "Cost budget exhausted: 0.02"
    assert 0.016 < result["spend"]["cost"] <= 0.02
    assert result["counts"]["stopped"] == 1
    assert result["best_score"] == result["baseline_score"]
    [_, stopped] = sorted(await rows(engines, "SELECT * FROM trials", result["optimization_id"]), key=lambda row: row["round"])
    assert (stopped["status"], stopped["score"]) == ("cancelled", None)
    assert stopped["stopped_early"] == "the cost budget is exhausted: 3 of 8 samples have an answer"
    assert await rows(engines, "SELECT * FROM budget_leases", result["optimization_id"]) == []


async def test_a_baseline_that_the_budget_does_not_cover_fails_the_run_by_that_budget(engines: Engines, spec: Spec) -> None:
    target = {"kind": "python", "ref": "plugged:hill", "at_most": {"tokens": 10}}
    handle = await engines.start(spec(target=target, budget={"tokens": 45}))
    failure = await failure_of(handle)
    assert failure.type == "token_budget"
    assert failure.message == (
        "Token budget exhausted: 45 tokens, before the baseline was measured: "
        "the tokens budget is exhausted: 4 of 8 samples have an answer"
    )


async def test_the_search_leaves_the_confirmation_its_share(engines: Engines, spec: Spec) -> None:
    items = [{"id": f"s{n}", "input": n} for n in range(20)]
    data = {"items": items, "splits": {"validation": 0.5, "test": 0.5}}
    for budget in ({"samples": 55}, {"cost": 0.06}, {"tokens": 600}, {"trials": 5}):
        result = await engines.run(spec(name="shared", dataset=data, budget=budget, stop=ENDLESS))
        assert result["confirmation"]["judged"]["evidence"]["n"] == 10, budget
        [limit] = budget.items()
        assert result["spend"][limit[0]] <= limit[1]
        assert result["spend"]["trials"] >= 4


async def test_a_confirmation_that_the_budget_has_no_place_for_is_refused_before_anything_is_spent(
    engines: Engines, spec: Spec
) -> None:
    data = {"items": [{"input": n} for n in range(20)], "splits": {"validation": 0.5, "test": 0.5}}
    failure = await failure_of(await engines.start(spec(dataset=data, budget={"samples": 29})))
    assert failure.message.startswith("budget.samples: is 29, and the baseline (10) with the confirmation (20) makes 30")


async def test_a_raised_budget_lets_the_run_go_on(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(name="raised", budget={"samples": 1000}, stop=ENDLESS))
    await eventually(lambda shown: shown["round"] >= 1, handle)
    await handle.execute_update("adjust", {"budget": {"samples": 0, "cost": 0.2}})
    result = await handle.result()
    assert result["stop_reason"] in ("cost_budget", "max_rounds")
    assert 0.15 < result["spend"]["cost"] <= 0.2
    [budget] = await rows(engines, "SELECT * FROM budgets", handle.id)
    assert (budget["limit_samples"], budget["limit_cost"]) == (0, 0.2)
    assert budget["spent_cost"] == pytest.approx(result["spend"]["cost"])


async def test_a_budget_that_comes_late_knows_what_was_spent_before(engines: Engines, spec: Spec) -> None:
    handle = await engines.start(spec(name="late", stop={"max_rounds": 10_000, "no_improvement": 0}))
    await eventually(lambda shown: shown["round"] >= 3, handle)
    await handle.execute_update("pause")
    paused = await eventually(lambda shown: shown["status"] == "paused", handle)
    limit = paused["spend"]["tokens"] + 200
    await handle.execute_update("adjust", {"budget": {"tokens": limit}})
    await handle.execute_update("resume")
    result = await handle.result()
    assert result["stop_reason"] == "token_budget"
    assert limit - 80 < result["spend"]["tokens"] <= limit
    [budget] = await rows(engines, "SELECT * FROM budgets", handle.id)
    assert budget["spent_tokens"] == result["spend"]["tokens"]


async def test_a_chain_of_requests_does_not_exhaust_a_budget_that_it_hardly_touches(
    engines: Engines, server: SimulatedModel
) -> None:
    """Each step may take 0.033, so that 40 samples with a step each can take more than there is; they take next to nothing."""
    steps = [
        {"name": "draft", "messages": [{"role": "user", "content": "{{factors.prompt}} {{input.say}}"}]},
        {"name": "final", "messages": [{"role": "user", "content": "{{steps.draft}}"}]},
    ]
    result = await engines.run(
        {
            "name": "chain",
            "configuration": {"prompt": "Repeat.", "max_tokens": 16_384},
            "target": {"kind": "chat", "model": "simulated-echo", "base_url": server.base_url, "steps": steps},
            "dataset": {"items": [{"input": {"say": f"sorry number {n}"}} for n in range(40)], "splits": "none"},
            "scorers": [{"kind": "contains", "name": "sorry", "values": ["sorry"]}],
            "objective": "sorry",
            "optimizer": "none",
            "budget": {"cost": 1.0},
            "prices": {"simulated-echo": {"input": 0.5, "output": 2.0}},
            "execution": {"concurrent_samples": 40},
        }
    )
    assert result["status"] == "completed", result["message"]
    assert result["spend"]["samples"] == 40
    assert 0 < result["spend"]["cost"] < 0.01
    [budget] = await rows(engines, "SELECT * FROM budgets", result["optimization_id"])
    assert (budget["lost_cost"], budget["exceeded"]) == (0, 0)


@pytest.mark.parametrize("share", [0.6, 1.7, 2.9])
async def test_targets_judges_and_proposers_together_stay_within_the_budget(
    engines: Engines, server: SimulatedModel, share: float
) -> None:
    """Counted by the endpoint itself, whichever of them comes to the end of the money."""
    whole = await engines.run(chatting(server, name="whole", stop={"max_rounds": 1}))
    each = whole["spend"]["cost"] / 2
    server.reset()
    budget = each * share + 0.05
    handle = await engines.start(chatting(server, name="limited", budget={"cost": budget}))
    try:
        result = await handle.result()
        assert result["stop_reason"] == "cost_budget"
    except Exception:
        assert (await failure_of(handle)).type == "cost_budget"
    stats = server.stats()
    paid = (10 * stats["prompt_tokens"] + 100 * stats["completion_tokens"]) / 1e6
    assert 0 < paid <= budget
    [account] = await rows(engines, "SELECT * FROM budgets", handle.id)
    assert account["spent_cost"] + account["lost_cost"] <= budget * (1 + 1e-9)
    assert account["spent_cost"] + account["lost_cost"] >= paid * (1 - 1e-9)
    assert account["exceeded"] == 0


async def test_answers_of_other_runs_are_reused_failed_ones_are_not_and_the_report_counts_them(
    engines: Engines, spec: Spec, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    parts: dict[str, Any] = {
        "configuration": {**spec()["configuration"], "broken": str(broken)},
        "target": {"kind": "python", "ref": "plugged:raises_while_a_file_is_there"},
        "stop": {"max_rounds": 1, "no_improvement": 0},
    }
    first = await engines.run(spec(name="first", **parts))
    assert (first["reused"], first["spend"]["samples"]) == (0, 16)
    broken.unlink()
    calls = broken.with_suffix(".calls")
    calls.unlink()
    second = await engines.run(spec(name="second", reuse="always", **parts))
    failed_before = [n for n in range(8) if n % 3 == 0]
    assert second["reused"] == 2 * (8 - len(failed_before))
    assert second["spend"]["samples"] == 2 * len(failed_before)
    assert sorted(line.split()[1] for line in calls.read_text().splitlines()) == sorted(
        f"s{n}" for n in failed_before for _ in range(2)
    )
    third = await engines.run(spec(name="third", reuse="always", **parts))
    assert (third["reused"], third["spend"]) == (16, {"samples": 0, "trials": 2, "tokens": 0, "cost": 0.0})
    never = await engines.run(spec(name="fourth", reuse="never", **parts))
    assert (never["reused"], never["spend"]["samples"]) == (0, 16)


async def test_a_retry_takes_over_everything_but_what_failed_proposals_included(
    engines: Engines, spec: Spec, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    parts: dict[str, Any] = {
        "configuration": {**spec()["configuration"], "broken": str(broken)},
        "target": {"kind": "python", "ref": "plugged:raises_while_a_file_is_there"},
        "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "plugged:climb"}},
        "stop": {"max_rounds": 2, "no_improvement": 0},
    }
    first = await engines.run(spec(name="retried", **parts))
    broken.unlink()
    retry = await engines.run(spec(name="retry", retry_of=first["optimization_id"], **parts))
    assert retry["reused"] == 3 * 5
    assert retry["spend"]["samples"] == 3 * 3
    assert retry["best_configuration"]["x"] == first["best_configuration"]["x"]
    assert math.isclose(retry["best_score"], retry["best_configuration"]["x"] / 1000)
    taken = await rows(engines, "SELECT DISTINCT reused_from FROM outcomes", retry["optimization_id"])
    assert {row["reused_from"] for row in taken} == {None, first["optimization_id"]}


async def test_a_first_budget_binds_trials_that_are_at_work(engines: Engines, spec: Spec) -> None:
    """It knows what they took before, and they take no more than it allows, but for the three calls that were in flight."""
    items = {"items": [{"id": f"s{n}", "input": n} for n in range(400)], "splits": "none"}
    slow = {"kind": "python", "ref": "plugged:slow_hill"}
    handle = await engines.start(spec(name="first-budget", dataset=items, target=slow, execution={"concurrent_samples": 3}))

    async def answered() -> int:
        return len(await rows(engines, "SELECT 1 FROM outcomes", handle.id))

    async with asyncio.timeout(60):
        while await answered() < 20:
            await asyncio.sleep(0.02)
        limit = await answered() + 120
        await handle.execute_update("adjust", {"budget": {"samples": limit}})
    failure = await failure_of(handle)
    assert failure.type == "sample_budget"
    found = await answered()
    assert limit - 50 < found <= limit + 3
    [account] = await rows(engines, "SELECT * FROM budgets", handle.id)
    assert found <= account["spent_samples"] + account["lost_samples"] <= limit + 3
