"""How many activities a trial has pending, and how many bytes they were given."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import workflow

from workflows.policies import LARGEST_MESSAGE


class PendingActivities:
    """Bounds both: what starts at the same moment travels in one message, which has a largest size."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._calls_pending = 0
        self._bytes_pending = 0

    @asynccontextmanager
    async def taken(self, size: int, *, calls: int = 1) -> AsyncIterator[None]:
        """Wait for room, and keep it until the block is left. Something that is larger than all room gets all of it."""
        size = min(size, LARGEST_MESSAGE)
        while not self._fits(size, calls):  # several that wait are woken at once, and not all of them may still fit
            await workflow.wait_condition(lambda: self._fits(size, calls))
        self._calls_pending += calls
        self._bytes_pending += size
        try:
            yield
        finally:
            self._calls_pending -= calls
            self._bytes_pending -= size

    def _fits(self, size: int, calls: int) -> bool:
        fewer = self._calls_pending + calls <= self._calls
        return fewer and self._bytes_pending + size <= LARGEST_MESSAGE
