"""An evaluation worker that dies with its target and is started again, as any supervisor would."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from clients.embedded.stack import StackAddresses
from tests.support.forked_commands import ROOT, ForkedProcess

QUEUE: Final = "mortal"
LONGEST: Final = 150.0
"""Two heartbeat timeouts until the shard's third attempt isolates the target, two starts of a worker, and a busy machine."""


class Deaths:
    """How often the worker had to be started again."""

    count = 0


@asynccontextmanager
async def mortal_evaluation_worker(stack: StackAddresses, log: Path, queue: str = QUEUE) -> AsyncIterator[Deaths]:
    """A worker for evaluations that is started again whenever it dies, as any supervisor would."""
    environment = os.environ | {
        "TEMPORAL_ADDRESS": stack.temporal_address,
        "DATABASE_URL": stack.database_url,
        "RATCHET_TASK_QUEUE": queue,
        "RATCHET_PLUGINS": "misbehaving,plugged",
        "RATCHET_PLUGIN_PATH": str(ROOT / "tests" / "support" / "plugins"),
    }
    command = ("worker", "--role", "evaluation", "--grace", "1", "--log-file", str(log))
    deaths = Deaths()
    process = await asyncio.to_thread(ForkedProcess, command, ROOT, environment)

    async def again() -> None:
        nonlocal process
        while True:
            await process.ended()
            deaths.count += 1
            process = await asyncio.to_thread(ForkedProcess, command, ROOT, environment)

    supervisor = asyncio.create_task(again())
    try:
        yield deaths
    finally:
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor
        process.send_signal(signal.SIGTERM)
        await process.ended()
