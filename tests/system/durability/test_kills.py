"""kill -9 at random points of a run: worker, Temporal and PostgreSQL. The run must end as if nothing had happened.

`RATCHET_KILL_SEEDS` sets how many seeds are tried (1 by default, with four kills; `make test-kills` tries 20).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from clients.embedded.stack import StackAddresses, embedded_stack
from tests.support.killed_runs import CALLS, SEEDS, disturb, everything_decided, spec
from tests.support.worker_processes import calls_begun, running

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_run_ends_like_an_undisturbed_one(seed: int, unserved_stack: StackAddresses, tmp_path: Path) -> None:
    random = Random(seed)
    run_id = f"killed-{seed}"
    (tmp_path / "reference").mkdir()
    async with running(unserved_stack, tmp_path / "reference") as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec(seed), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(unserved_stack, run_id)
        assert calls_begun(calls) == CALLS
    async with embedded_stack(tmp_path / "disturbed", ui=False) as stack, running(stack, tmp_path / "disturbed") as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec(seed), id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, random)
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        extra = calls_begun(calls) - CALLS
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_candidate_id"] == expected_result["best_candidate_id"]
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
    print(f"seed {seed}: killed {killed.victims}, {extra} calls repeated of {killed.in_flight} in flight")
