"""kill -9 while a run searches values or examples: its suggestions are those of an undisturbed run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clients.stack import embedded_stack
from tests.durability.test_kills import SEEDS, calls_begun, disturb, everything_decided, running
from tests.end_to_end.test_few_shot import TEACHING
from tests.end_to_end.test_search import BAKING

pytestmark = pytest.mark.timeout(300)


SPECS: dict[str, dict[str, Any]] = {
    "search": {**BAKING, "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(12)]}},
    "few_shot": TEACHING,
}


def _spec(name: str, seed: int) -> dict[str, Any]:
    return {
        **SPECS[name],
        "execution": {"concurrent_samples": 8, "max_rounds_per_execution": 4},
        "stop": {"max_rounds": 9},
        "seed": seed,
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SPECS)
async def test_a_killed_search_ends_like_an_undisturbed_one(name: str, seed: int, tmp_path: Path) -> None:
    run_id = f"{name}-{seed}"
    async with embedded_stack(tmp_path / "reference", ui=False) as stack, running(stack, tmp_path / "reference") as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(name, seed), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
        in_all = calls_begun(calls)
    assert expected_result["rounds"] == 9
    async with embedded_stack(tmp_path / "disturbed", ui=False) as stack, running(stack, tmp_path / "disturbed") as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(name, seed), id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, Random(seed), in_all)
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        extra = calls_begun(calls) - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["importances"] == expected_result["importances"]
    assert result["confirmation"] == expected_result["confirmation"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
