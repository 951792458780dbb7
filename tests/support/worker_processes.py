"""Workers as processes of their own, as they are run in production, and what they have called."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from temporalio.client import Client

from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.forked_commands import ROOT, ForkedProcess
from tests.support.patience import PATIENCE_SECONDS


class WorkerProcess:
    """`python -m worker`, as it is run in production, with the tests' plug-ins."""

    def __init__(
        self, stack: StackAddresses, calls: Path, module: str = "worker", told: Mapping[str, str] | None = None
    ) -> None:
        """`told` is what it finds in its environment beside."""
        self._module = module
        self._environment = os.environ | {
            "TEMPORAL_ADDRESS": stack.temporal_address,
            "DATABASE_URL": stack.database_url,
            "RATCHET_PLUGINS": "plugged",
            "RATCHET_PLUGIN_PATH": str(ROOT / "tests" / "support" / "plugins"),
            "RATCHET_TEST_CALLS": str(calls),
            **(told or {}),
        }
        self._log = calls.with_suffix(".log")
        self._process: ForkedProcess | None = None

    async def start(self) -> None:
        command = (self._module, "--grace", "1", "--log-file", str(self._log))
        self._process = await asyncio.to_thread(ForkedProcess, command, ROOT, self._environment)

    async def ended(self) -> int:
        """Wait until it has ended by itself; returns its exit code."""
        assert self._process is not None
        return await self._process.ended()

    async def run(self, *arguments: str) -> int:
        """The same program with other arguments, to its end; returns the exit code."""
        process = await asyncio.to_thread(ForkedProcess, (self._module, *arguments), ROOT, self._environment)
        return await process.ended()

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def serves(self) -> bool:
        """Whether it says so."""
        return self.served > 0

    @property
    def served(self) -> int:
        """How often it has said so."""
        return self._log.read_text().count('"serving"') if self._log.exists() else 0

    async def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        await self._process.ended()


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
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


def repeated(calls: Path) -> int:
    begun = [line for line in calls.read_text().splitlines() if line.startswith("start ")]
    return len(begun) - len(set(begun))


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
