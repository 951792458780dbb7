"""How work on a shard ends: it is done, cut off, or handed back as far as it came."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.endpoints.breaker import TargetDown
from activities.endpoints.gate import ClosedForLong
from activities.shards.shard import ShardAtWork
from activities.targets.faults import Refused
from workflows.model.failures import PERMANENT_TARGET_ERROR, shorten
from workflows.rules.scoring.error_counts import ErrorCounts, summed

PATIENCE_AFTER_THE_END = 10.0
"""Seconds to commit what is there when the worker stops, or when Temporal no longer waits for this attempt."""

CUT_OFF = "WorkerShutdown"
"""What SDKs call the error of an activity that their worker gave up because it stops."""

RATE_LIMITED = "RateLimited"


async def finished_or_handed_back(at_work: ShardAtWork) -> None:
    """Run the shard. Returns when it is done, and also when it was cancelled: then with what is there."""
    working = asyncio.create_task(at_work.run())
    try:
        await asyncio.shield(working)
        await at_work.batches.drain()
    except asyncio.CancelledError:
        details = activity.cancellation_details()
        asked = details is not None and details.cancel_requested
        working.cancel()
        await asyncio.wait({working})
        await _uninterrupted(at_work.hand_back(), None if asked else PATIENCE_AFTER_THE_END)
        if not asked:
            raise
        return
    if at_work.is_cut_off and not at_work.is_complete:
        raise ApplicationError("this worker begins no further calls", type=CUT_OFF, category=ApplicationErrorCategory.BENIGN)
    if at_work.fatal is not None:
        raise _told(at_work.fatal, summed([at_work.errors]))


async def _uninterrupted(ending: Coroutine[Any, Any, None], patience: float | None) -> None:
    """Finish, whatever cancels in between; only a worker that is told to stop in the meantime sets a limit to it."""
    finishing = asyncio.create_task(ending)
    while not finishing.done():
        try:
            await asyncio.wait({finishing}, timeout=patience)
        except asyncio.CancelledError:
            patience = PATIENCE_AFTER_THE_END
            continue
        if not finishing.done():
            finishing.cancel()
    if not finishing.cancelled():
        finishing.result()


def _told(fatal: Exception, errors: ErrorCounts) -> Exception:
    """What ended a shard, as Temporal is told: whether trying again can help, and when."""
    match fatal:
        case Refused() | TargetDown():
            return ApplicationError(shorten(str(fatal)), {"errors": errors}, type=PERMANENT_TARGET_ERROR, non_retryable=True)
        case ClosedForLong():
            return ApplicationError(
                str(fatal),
                type=RATE_LIMITED,
                next_retry_delay=timedelta(seconds=fatal.seconds),
                category=ApplicationErrorCategory.BENIGN,
            )
    return fatal
