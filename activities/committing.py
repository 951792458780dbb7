"""Outcomes on their way to the store: committed as they complete, in small batches, and never given up.

A store that is away must not cost an answer that was paid for. What could not be committed is kept and tried again until
the store is back; failing instead would pay for every one of these answers a second time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from workflows.model.suite import KeptAnswer, Outcome

FULL_BATCH = 25
LONGEST_HELD = 0.005
"""Seconds that an outcome waits for others to be committed with. Short: what is not committed when a worker is killed is
paid for again; long enough that fast targets fill a batch."""

FIRST_DELAY = 0.1
LONGEST_DELAY = 5.0

T = TypeVar("T")


async def until_back(call: Callable[[], Awaitable[T]], is_away: Callable[[BaseException], bool]) -> T:
    """The result of a call to the store, however long the store is away."""
    delay = FIRST_DELAY
    while True:
        try:
            return await call()
        except Exception as error:
            if not is_away(error):
                raise
        await asyncio.sleep(delay * random.uniform(0.5, 1.0))
        delay = min(delay * 2, LONGEST_DELAY)


class OutcomeBatches:
    """Collects outcomes, and answers that are still to be scored, and commits them in the background, one batch at a time."""

    def __init__(
        self,
        commit: Callable[[Sequence[Outcome | KeptAnswer]], Awaitable[object]],
        is_away: Callable[[BaseException], bool],
    ) -> None:
        self._commit = commit
        self._is_away = is_away
        self._ready: list[Outcome | KeptAnswer] = []
        self._flush: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.error: Exception | None = None
        """Why the store refuses for good; nothing is committed any more."""

    def add(self, outcome: Outcome | KeptAnswer) -> None:
        self._ready.append(outcome)
        if len(self._ready) >= FULL_BATCH:
            self._start()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LONGEST_HELD, self._start)

    async def drain(self) -> None:
        """Wait until everything is committed. Raises what the store refuses for good."""
        while self.error is None and (self._ready or self._flush is not None):
            self._start()
            if self._flush is not None:
                await asyncio.wait({self._flush})
        if self.error is not None:
            raise self.error

    def abandon(self) -> None:
        """Stop trying: nobody is left to wait for the store."""
        if self._timer is not None:
            self._timer.cancel()
        if self._flush is not None:
            self._flush.cancel()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flush is None and self._ready and self.error is None:
            self._flush = asyncio.create_task(self._commit_all())
            self._flush.add_done_callback(self._flushed)

    async def _commit_all(self) -> None:
        while self._ready:
            batch, self._ready = self._ready, []
            try:
                await until_back(lambda batch=batch: self._commit(batch), self._is_away)  # type: ignore[misc]
            except Exception as error:
                self.error = error
                return

    def _flushed(self, _: asyncio.Task[None]) -> None:
        self._flush = None
