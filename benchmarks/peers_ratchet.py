"""Ratchet in the comparison with its peers: the same jobs, on the embedded stack, with its worker as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from temporalio.client import Client

from benchmarks.peers_drivers.driving import Job
from benchmarks.peers_drivers.task import calls, samples
from clients.embedded.stack import StackAddresses, embedded_stack
from clients.temporal import connect

ROOT = Path(__file__).parents[1]
PLUGIN = "benchmarks.peers_drivers.ratchet_plugin"
MANY_ROUNDS = 100_000

TEXT = {
    "configuration": {"instruction": {"value": "0", "change": "text", "max_length": 100}},
    "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": f"{PLUGIN}:propose"}, "parent": "last"},
}
"""The proposer that every peer gets: one candidate follows from the one before."""

FOUR_A_ROUND = {
    "configuration": {
        name: {"value": 500_000, "change": "structured", "type": "integer", "min": 0, "max": 1_000_000, "step": 17}
        for name in "abcdefgh"
    },
    "optimizer": {"proposer": {"kind": "step"}, "parent": "last", "candidates_per_round": 4},
}

VARIANTS: dict[str, dict[str, Any]] = {"one": TEXT, "four": FOUR_A_ROUND}


@dataclass(frozen=True)
class Finished:
    """A run that is over, and what it says of itself."""

    wall: float
    result: dict[str, Any]
    in_flight: int = 0
    """When the worker was killed: calls that had begun and were not in the store yet."""
    idle: float = 0.0
    """Seconds from then to the next call."""


class Ratchet:
    """The embedded stack, and a worker process that can be killed."""

    def __init__(self, stack: StackAddresses, client: Client, folder: Path) -> None:
        self.stack, self.client, self.folder = stack, client, folder
        self._worker: asyncio.subprocess.Process | None = None
        self._numbers = iter(range(10_000))

    async def start_worker(self) -> None:
        environment = os.environ | {
            "TEMPORAL_ADDRESS": self.stack.temporal_address,
            "DATABASE_URL": self.stack.database_url,
            "RATCHET_PLUGINS": PLUGIN,
            "RATCHET_PLUGIN_PATH": str(ROOT),
        }
        command = (sys.executable, "-m", "worker", "--grace", "1", "--log-file", str(self.folder / "worker.log"))
        self._worker = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)

    async def end_worker(self, *, kill: bool = False) -> None:
        assert self._worker is not None
        (self._worker.kill if kill else self._worker.terminate)()
        await self._worker.wait()

    async def run(self, job: Job, kill_at: int | None = None) -> Finished:
        """One optimization; its worker is killed and started again when so many calls have begun."""
        run_id = f"{job.variant}-{next(self._numbers)}"
        began = time.perf_counter()
        handle = await self.client.start_workflow("OptimizationWorkflow", spec(job), id=run_id, task_queue="optimization")
        in_flight, idle = 0, 0.0
        if kill_at is not None:
            await begun(job, kill_at)
            await self.end_worker(kill=True)
            killed = time.perf_counter()
            before = calls(Path(job.log))
            in_flight = before - await self._stored(run_id)
            await self.start_worker()
            await begun(job, before + 1)
            idle = time.perf_counter() - killed
        result = await handle.result()
        return Finished(time.perf_counter() - began, result, in_flight, idle)

    async def _stored(self, run_id: str) -> int:
        connection = await asyncpg.connect(self.stack.database_url)
        try:
            return int(await connection.fetchval("SELECT count(*) FROM outcomes WHERE run_id = $1", run_id))
        finally:
            await connection.close()


async def begun(job: Job, count: int) -> None:
    """Wait for the target's log to tell of so many calls."""
    async with asyncio.timeout(120):
        while calls(Path(job.log)) < count:  # noqa: ASYNC110 (a file tells, and another process writes it)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def ratchet() -> AsyncIterator[Ratchet]:
    async with AsyncExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-peers-")))
        stack = await exits.enter_async_context(embedded_stack(folder / "home", ui=False))
        running = Ratchet(stack, await connect(stack.temporal_address), folder)
        await running.start_worker()
        try:
            yield running
        finally:
            await running.end_worker()


def spec(job: Job) -> dict[str, Any]:
    variant = VARIANTS[job.variant]
    side_by_side = variant["optimizer"].get("candidates_per_round", 1)
    return {
        "name": f"peers-{job.variant}",
        "configuration": variant["configuration"] | {"latency": job.latency, "log": job.log},
        "target": {"kind": "python", "ref": f"{PLUGIN}:answer"},
        "dataset": {"items": [{"id": sample, "input": sample} for sample in samples(job.samples)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "value", "ref": f"{PLUGIN}:value"}],
        "objective": {"metric": "value"},
        "optimizer": variant["optimizer"],
        "stop": {"max_rounds": MANY_ROUNDS, "no_improvement": 0},
        "budget": {"samples": job.budget},
        "execution": {"concurrent_samples": job.concurrency, "concurrent_trials": side_by_side},
        "seed": 7,
    }
