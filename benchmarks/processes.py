"""Worker processes to measure: `python -m worker` as it runs in production, on a stack of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psutil
from temporalio.client import Client

from benchmarks.figures import PLUGINS
from clients.embedded.stack import StackAddresses, embedded_stack
from clients.temporal import connect

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class WorkerProcess:
    """A running worker, and what it costs."""

    pid: int

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    def resident_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20


@dataclass(frozen=True)
class BenchServers:
    """The embedded stack without a worker, and the database behind it."""

    stack: StackAddresses
    client: Client
    folder: Path

    @property
    def data(self) -> Path:
        """What workers may read datasets from."""
        return self.folder / "data"

    async def run(self, run_id: str, spec: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = await self.client.execute_workflow(
            "OptimizationWorkflow", spec, id=run_id, task_queue="optimization"
        )
        return result

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        connection = await asyncpg.connect(self.stack.database_url)
        try:
            return await connection.fetchval(query, *arguments)
        finally:
            await connection.close()

    async def fetchrow(self, query: str, *arguments: Any) -> Any:
        connection = await asyncpg.connect(self.stack.database_url)
        try:
            return await connection.fetchrow(query, *arguments)
        finally:
            await connection.close()

    def write_dataset(self, name: str, samples: int) -> None:
        """A JSONL file where workers may read it."""
        lines = (json.dumps({"id": f"s{number:07}", "input": number}) for number in range(samples))
        (self.data / name).write_text("\n".join(lines))

    @asynccontextmanager
    async def worker(self, **environment: str) -> AsyncIterator[WorkerProcess]:
        """One more worker process, for as long as the block lasts."""
        told = {
            "TEMPORAL_ADDRESS": self.stack.temporal_address,
            "DATABASE_URL": self.stack.database_url,
            "RATCHET_PLUGINS": "bench_plugins",
            "RATCHET_PLUGIN_PATH": str(PLUGINS),
            "RATCHET_DATA_DIR": str(self.data),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "worker", "--grace", "1", "--log-file", str(self.folder / "worker.log"),
            cwd=ROOT, env=os.environ | told | environment,
        )  # fmt: skip
        try:
            yield WorkerProcess(process.pid)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


@asynccontextmanager
async def bench_servers() -> AsyncIterator[BenchServers]:
    """A stack of its own in a folder that is thrown away; workers are started one by one."""
    async with AsyncExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="ratchet-bench-")))
        (folder / "data").mkdir()
        stack = await exits.enter_async_context(embedded_stack(folder / "home", ui=False))
        yield BenchServers(stack, await connect(stack.temporal_address), folder)
