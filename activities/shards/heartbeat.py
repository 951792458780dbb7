"""A ticker that tells Temporal that an activity lives, never how far it is.

Heartbeats on progress stop when nothing progresses, a rate limit for instance, and the server then starts the same work a
second time and pays twice. What is done is known from the store; a heartbeat carries at most what matters after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

LONGEST_INTERVAL = timedelta(seconds=5)
TICKS_PER_TIMEOUT = 3

FIRST_TICK = timedelta(seconds=1)
"""Most activities are over by then, and need not tell the server that they live."""


@asynccontextmanager
async def heartbeating(tell: Callable[[], Sequence[object]] = tuple) -> AsyncIterator[None]:
    """Heartbeat from entry to exit, several times per heartbeat timeout; nothing when the activity has none.

    `tell` is what the next attempt is told if this one fails or dies.
    """
    timeout = activity.info().heartbeat_timeout
    if not timeout:
        yield
        return
    ticker = asyncio.create_task(_tick(min(timeout / TICKS_PER_TIMEOUT, LONGEST_INTERVAL), tell))
    try:
        yield
    except Exception:
        told = tell()
        if told:
            activity.heartbeat(*told)
        raise
    finally:
        ticker.cancel()
        await asyncio.wait({ticker})


async def _tick(interval: timedelta, tell: Callable[[], Sequence[object]]) -> None:
    pause = min(interval, FIRST_TICK)
    while True:
        await asyncio.sleep(pause.total_seconds())
        activity.heartbeat(*tell())
        pause = interval
