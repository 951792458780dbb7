"""kill -9 while candidates are measured in parts: nothing is paid for twice, and the decisions are the undisturbed ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clients.stack import embedded_stack
from tests.durability.test_kills import SEEDS, calls_begun, disturb, everything_decided, running
from tests.end_to_end.in_parts import spec

WORKER = "tests.end_to_end.in_parts"

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int) -> dict[str, Any]:
    return spec(target={"kind": "python", "ref": "plugged:logged_hill"}, execution={"concurrent_samples": 6}, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_run_killed_between_parts_ends_like_an_undisturbed_one(seed: int, tmp_path: Path) -> None:
    run_id = f"in-parts-{seed}"
    undisturbed, disturbed = tmp_path / "reference", tmp_path / "disturbed"
    async with embedded_stack(undisturbed, ui=False) as stack, running(stack, undisturbed, WORKER) as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
        in_all = calls_begun(calls)
    assert in_all == expected_result["spend"]["samples"]
    async with embedded_stack(disturbed, ui=False) as stack, running(stack, disturbed, WORKER) as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed), id=run_id, task_queue="optimization")
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
