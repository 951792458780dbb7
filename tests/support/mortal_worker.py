"""An evaluation worker that dies with its target and is started again, as any supervisor would."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from clients.embedded.stack import StackAddresses

ROOT: Final = Path(__file__).parents[2]
QUEUE: Final = "mortal"
LONGEST: Final = 45.0
"""Two heartbeat timeouts until the shard's third attempt isolates the target, and two starts of a worker."""


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
    command = [sys.executable, "-m", "worker", "--role", "evaluation", "--grace", "1", "--log-file", str(log)]
    deaths = Deaths()
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)

    async def again() -> None:
        nonlocal process
        while True:
            await process.wait()
            deaths.count += 1
            process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)

    supervisor = asyncio.create_task(again())
    try:
        yield deaths
    finally:
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()
