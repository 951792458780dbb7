"""kill -9 while a run reflects: parts, leaders and drawn parents are those of an undisturbed run, in both modes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clients.stack import embedded_stack
from tests.durability.test_kills import SEEDS, calls_begun, disturb, everything_decided, running
from tests.end_to_end.test_gepa import EXACT, REFLECTING

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Without a budget: what is lost in a kill counts against it, so that there is less to search with."""
    rounds = {"max_rounds": 3, "no_improvement": 0}
    return {
        **REFLECTING,
        "optimizer": {**options, "steps_per_round": 3},
        "stop": rounds,
        "budget": {},
        "execution": {"concurrent_samples": 6},
        "seed": seed,
    }


@pytest.mark.parametrize("options", [REFLECTING["optimizer"], EXACT], ids=["improved", "exact"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_reflection_ends_like_an_undisturbed_one(seed: int, options: dict[str, Any], tmp_path: Path) -> None:
    run_id = f"reflecting-{seed}"
    async with embedded_stack(tmp_path / "reference", ui=False) as stack, running(stack, tmp_path / "reference") as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed, options), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
        in_all = calls_begun(calls)
    assert expected_result["rounds"] >= 1
    async with embedded_stack(tmp_path / "disturbed", ui=False) as stack, running(stack, tmp_path / "disturbed") as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed, options), id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, Random(seed), in_all)
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        extra = calls_begun(calls) - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
