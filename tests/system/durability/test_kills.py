"""kill -9 at random points of a run: worker, Temporal and PostgreSQL. The run must end as if nothing had happened.

`RATCHET_KILL_SEEDS` sets how many seeds are tried (1 by default, with four kills; `make test-kills` tries 20).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client

from clients.embedded.stack import StackAddresses, embedded_stack, stack_state
from clients.temporal import connect

ROOT = Path(__file__).parents[3]
SEEDS = range(int(os.environ.get("RATCHET_KILL_SEEDS", "1")))
KILLS_PER_SEED = 4
ROUNDS, SAMPLES, REPLICATES, CANDIDATES = 8, 30, 2, 2
CALLS = (1 + ROUNDS * CANDIDATES) * SAMPLES * REPLICATES

pytestmark = pytest.mark.timeout(300)


@dataclass
class Killed:
    """What a disturbed run went through."""

    victims: list[str] = field(default_factory=list)
    in_flight: int = 0
    """Calls that had begun, and whose answers were not in the store yet, when the worker was killed."""


class WorkerProcess:
    """`python -m worker`, as it is run in production, with the tests' plug-ins."""

    def __init__(self, stack: StackAddresses, calls: Path, module: str = "worker") -> None:
        self._module = module
        self._environment = os.environ | {
            "TEMPORAL_ADDRESS": stack.temporal_address,
            "DATABASE_URL": stack.database_url,
            "RATCHET_PLUGINS": "plugged",
            "RATCHET_PLUGIN_PATH": str(ROOT / "tests" / "support" / "plugins"),
            "RATCHET_TEST_CALLS": str(calls),
        }
        self._log = calls.with_suffix(".log")
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self._module, "--grace", "1", "--log-file", str(self._log), cwd=ROOT, env=self._environment
        )

    async def kill(self, number: int = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        await self._process.wait()


def calls_begun(calls: Path) -> int:
    return calls.read_text().count("start ") if calls.exists() else 0


async def outcomes_stored(stack: StackAddresses, run_id: str) -> int:
    """Count what is in the store, as soon as the store answers again."""
    async with asyncio.timeout(30):
        while True:
            try:
                connection = await asyncpg.connect(stack.database_url)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.05)
                continue
            try:
                return int(await connection.fetchval("SELECT count(*) FROM outcomes WHERE run_id = $1", run_id))
            finally:
                await connection.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def disturb(
    stack: StackAddresses, worker: WorkerProcess, calls: Path, run_id: str, random: Random, calls_in_all: int = CALLS
) -> Killed:
    """Kill something each time the run has come so far."""
    killed = Killed()
    for point in sorted(random.sample(range(20, calls_in_all - 40), KILLS_PER_SEED)):
        await until(lambda point=point: calls_begun(calls) >= point)  # type: ignore[misc]
        victim = random.choice(["worker", "temporal", "postgres"])
        killed.victims.append(victim)
        if victim == "worker":
            await worker.kill()
            killed.in_flight += calls_begun(calls) - repeated(calls) - await outcomes_stored(stack, run_id)
            await worker.start()
            continue
        state = stack_state(stack.home)
        pid = state.temporal_pid if victim == "temporal" else state.postgres_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        def replaced(victim: str = victim, pid: int = pid) -> bool:
            now = stack_state(stack.home)
            return (now.temporal_pid if victim == "temporal" else now.postgres_pid) not in {pid, None}

        await until(replaced)
    return killed


def repeated(calls: Path) -> int:
    begun = [line for line in calls.read_text().splitlines() if line.startswith("start ")]
    return len(begun) - len(set(begun))


def spec(seed: int) -> dict[str, Any]:
    return {
        "name": "killed",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": "plugged:logged_hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(SAMPLES)]},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": CANDIDATES},
        "replicates": REPLICATES,
        "stop": {"max_rounds": ROUNDS, "no_improvement": 0},
        "execution": {"concurrent_samples": 16},
        "seed": seed,
    }


async def everything_decided(stack: StackAddresses, run_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows that must not depend on what was killed; times and run ids are left out."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        queries = {
            "trials": "SELECT candidate_id, purpose, round, status, score, sample_means, coverage, paid_samples FROM trials",
            "candidates": "SELECT candidate_id, config_hash, round, parent_candidate_ids FROM candidates",
            "rounds": "SELECT round, best_score, best_so_far, stop_reason, stopped FROM rounds",
            "outcomes": "SELECT config_hash, item_hash, replicate, status, scores::text, output FROM outcomes",
            "events": "SELECT event_key, type FROM events",
            "run": "SELECT status, stop_reason, best_score, baseline_score FROM runs",
        }
        return {
            name: sorted((tuple(row) for row in await connection.fetch(f"{query} WHERE run_id = $1", run_id)), key=repr)
            for name, query in queries.items()
        }
    finally:
        await connection.close()


@asynccontextmanager
async def running(
    stack: StackAddresses, folder: Path, module: str = "worker"
) -> AsyncIterator[tuple[Client, WorkerProcess, Path]]:
    calls = folder / "calls"
    worker = WorkerProcess(stack, calls, module)
    await worker.start()
    try:
        yield await connect(stack.temporal_address), worker, calls
    finally:
        await worker.kill(signal.SIGTERM)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_run_ends_like_an_undisturbed_one(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    run_id = f"killed-{seed}"
    async with embedded_stack(tmp_path / "reference", ui=False) as stack, running(stack, tmp_path / "reference") as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", spec(seed), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
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
