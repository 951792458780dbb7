"""Three workers on one run, one of them killed with -9 every few seconds: nothing changes but what was in flight is repeated.

`RATCHET_WORKER_KILLS` sets how often (3 by default, two seconds apart; more makes the run longer).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses, embedded_stack
from clients.temporal import connect
from tests.support.killed_runs import everything_decided
from tests.support.worker_processes import WorkerProcess, calls_begun, outcomes_stored, repeated, until

KILLS = int(os.environ.get("RATCHET_WORKER_KILLS", "3"))
SECONDS_BETWEEN = 2.0
ROUNDS, SAMPLES, REPLICATES, CANDIDATES = max(2, KILLS // 2), 30, 2, 4

pytestmark = pytest.mark.timeout(120 + 20 * KILLS)


def spec() -> dict[str, Any]:
    return {
        "name": "three-workers",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": "plugged:logged_hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": CANDIDATES},
        "replicates": REPLICATES,
        "stop": {"max_rounds": ROUNDS, "no_improvement": 0},
        # Small shards, so that every worker has some of each trial; few at once, so that a kill finds work to interrupt.
        "execution": {"concurrent_samples": 3, "samples_per_shard": 10},
        "seed": 3,
    }


@asynccontextmanager
async def workers(stack: StackAddresses, folder: Path, count: int) -> AsyncIterator[list[WorkerProcess]]:
    async with AsyncExitStack() as exits:
        started = []
        for _ in range(count):
            worker = WorkerProcess(stack, folder / "calls")
            await worker.start()
            exits.push_async_callback(worker.kill, signal.SIGTERM)
            started.append(worker)
        yield started


async def kill_one_after_another(stack: StackAddresses, fleet: list[WorkerProcess], calls: Path, run_id: str) -> int:
    """How many calls were in flight, on all workers, at the moments of the kills: so many may be repeated."""
    random, in_flight, begun = Random(7), 0, 0
    for _ in range(KILLS):
        await until(lambda begun=begun: calls_begun(calls) > begun)  # type: ignore[misc]
        victim = random.choice(fleet)
        await victim.kill()
        in_flight += max(0, calls_begun(calls) - repeated(calls) - await outcomes_stored(stack, run_id))
        await victim.start()
        begun = calls_begun(calls)
        await asyncio.sleep(SECONDS_BETWEEN)
    return in_flight


async def test_a_worker_killed_every_few_seconds_changes_nothing(unserved_stack: StackAddresses, tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    async with workers(unserved_stack, tmp_path / "reference", 1):
        client = await connect(unserved_stack.temporal_address)
        fast = spec() | {"execution": spec()["execution"] | {"concurrent_samples": 32}}
        expected_result = await client.execute_workflow(
            "OptimizationWorkflow", fast, id="three-workers", task_queue="optimization"
        )
        expected = await everything_decided(unserved_stack, "three-workers")
    paid = calls_begun(tmp_path / "reference" / "calls")
    assert paid == expected_result["spend"]["samples"]
    calls = tmp_path / "disturbed" / "calls"
    async with (
        embedded_stack(tmp_path / "disturbed", ui=False) as stack,
        workers(stack, tmp_path / "disturbed", 3) as fleet,
    ):
        client = await connect(stack.temporal_address)
        handle = await client.start_workflow("OptimizationWorkflow", spec(), id="three-workers", task_queue="optimization")
        in_flight = await kill_one_after_another(stack, fleet, calls, "three-workers")
        async with asyncio.timeout(90):
            result = await handle.result()
        found = await everything_decided(stack, "three-workers")
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after {KILLS} kills"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    extra = calls_begun(calls) - paid
    assert 0 <= extra <= in_flight, f"{extra} calls repeated, {in_flight} in flight at {KILLS} kills"
    assert result["lost"]["samples"] > 0, "nothing is told of calls that were lost"
    print(f"{KILLS} kills: {extra} calls repeated of {in_flight} in flight")
