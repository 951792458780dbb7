"""The marks that a worker leaves while it serves, so that a run's clock stands still while nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from store.write.served_times import ServedTimes

log = structlog.get_logger("serving_marks")

SECONDS_BETWEEN_MARKS: Final = 5.0
"""Well below what counts as unserved time, so that a slow moment of the store is none."""


@asynccontextmanager
async def leaving_marks(
    served_times: ServedTimes, task_queues: Sequence[str], is_away: Callable[[BaseException], bool]
) -> AsyncIterator[None]:
    """Mark the task queues as served, now and every few seconds until the block is left."""
    await _mark(served_times, task_queues, is_away)
    marking = asyncio.create_task(_keep_marking(served_times, task_queues, is_away))
    try:
        yield
    finally:
        marking.cancel()
        with suppress(asyncio.CancelledError):
            await marking


async def _keep_marking(
    served_times: ServedTimes, task_queues: Sequence[str], is_away: Callable[[BaseException], bool]
) -> None:
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_MARKS)
        await _mark(served_times, task_queues, is_away)


async def _mark(served_times: ServedTimes, task_queues: Sequence[str], is_away: Callable[[BaseException], bool]) -> None:
    """A mark that cannot be left costs nobody anything: at worst a clock stands still for a moment too long."""
    try:
        await served_times.mark(task_queues)
    except Exception as error:
        if not is_away(error):
            log.warning("no mark could be left that this worker serves", error=str(error))
