"""Whether an attempt at an activity still counts, asked where a call begins: one that nobody waits for pays for nothing.

A process that was stopped, or a machine that slept, comes back in the middle of its work, and its server may have given that
work to somebody else meanwhile. The loop would make the calls that are ready before it learns of that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import structlog
from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.service import RPCError, RPCStatusCode

from activities.budget.metering import NoMoreCalls

log = structlog.get_logger("evaluation")

SHARE_OF_TIMEOUT = 0.5
"""After so much of the heartbeat timeout without a tick it is not certain that the server still waits."""

SECONDS_TO_ASK = 5.0
SECONDS_BETWEEN_QUESTIONS = 0.5


class CallsEnd:
    """Set when a worker must not begin another call, whatever it is in the middle of."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True


def seconds_gone() -> float:
    """A clock that never goes back, and goes on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC) if sys.platform == "linux" else time.CLOCK_MONOTONIC


class Attempt:
    """One attempt at an activity that heartbeats."""

    def __init__(self, end: CallsEnd | None = None, *, clock: Callable[[], float] = seconds_gone) -> None:
        self._end = end or CallsEnd()
        self._clock = clock
        timeout = activity.info().heartbeat_timeout
        self._longest_gap = None if timeout is None else timeout.total_seconds() * SHARE_OF_TIMEOUT
        self._ticked_at = clock()
        self._is_uncertain = False
        self._asking = asyncio.Lock()
        self._superseded = False

    @property
    def is_over(self) -> bool:
        """Nothing more begins."""
        return self._superseded or self._end.is_set

    def ticked(self) -> None:
        """The server is being told that the attempt lives."""
        self._notice_gap()
        self._ticked_at = self._clock()

    def ticked_in_silence(self) -> tuple[()]:
        """The same, for activities that have nothing to tell the next attempt."""
        self.ticked()
        return ()

    async def permit(self) -> None:
        """Return when a call may begin. Raises NoMoreCalls when none may."""
        self._notice_gap()
        if self._is_uncertain and not self.is_over:
            await self._ask()
        if self.is_over:
            raise NoMoreCalls("no further call begins")

    def _notice_gap(self) -> None:
        if self._longest_gap is not None and self._clock() - self._ticked_at > self._longest_gap:
            self._is_uncertain = True

    async def _ask(self) -> None:
        """Ask the server until it answers: as long as it does not, nobody knows whose work this is."""
        async with self._asking:
            while self._is_uncertain and not self.is_over:
                try:
                    handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
                    await self._heartbeat(handle)
                except RPCError as error:
                    if error.status is RPCStatusCode.NOT_FOUND:
                        log.warning("this attempt was given to somebody else while its worker stood still")
                        self._superseded = True
                        return
                    await asyncio.sleep(SECONDS_BETWEEN_QUESTIONS)
                    continue
                self._ticked_at = self._clock()
                self._is_uncertain = False

    @staticmethod
    async def _heartbeat(handle: AsyncActivityHandle) -> None:
        try:
            async with asyncio.timeout(SECONDS_TO_ASK):
                await handle.heartbeat()
        except AsyncActivityCancelledError:
            return  # it is ours; that it shall end, the SDK tells by itself
        except TimeoutError:
            raise RPCError("the server did not answer", RPCStatusCode.DEADLINE_EXCEEDED, b"") from None
