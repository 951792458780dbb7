"""A worker for the NetHack example, on a task queue of its own, which may import nothing but the example's plug-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from activities.settings import Settings
from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.allowed import OPERATOR
from worker import serving

QUEUE = "nethack"


@asynccontextmanager
async def serving_nethack(stack: StackAddresses, example: Path) -> AsyncIterator[str]:
    settings = Settings(
        stack.database_url,
        operator=OPERATOR,
        task_queue=QUEUE,
        evaluation_task_queue=f"{QUEUE}-evaluation",
        plugins="nethack_player",
        plugin_path=example,
        grace=timedelta(seconds=1),
    )
    async with serving(await connect(stack.temporal_address), settings):
        yield QUEUE
