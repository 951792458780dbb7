"""Outcomes on their way to the store: committed as they complete, in small batches, and never given up.

A store that is away must not cost an answer that was paid for. What could not be committed is kept and tried again until
the store is back; failing instead would pay for every one of these answers a second time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from workflows.model.suite import Outcome, UnscoredAnswer

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
    """Collects outcomes, and answers that are still to be scored, and commits them in the background, one batch at a time.

    A batch begins as soon as the one before it is committed, with whatever has come by then: what is not committed when a
    worker is killed is paid for again.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Outcome | UnscoredAnswer]], Awaitable[object]],
        is_away: Callable[[BaseException], bool],
    ) -> None:
        self._commit = commit
        self._is_away = is_away
        self._ready: list[Outcome | UnscoredAnswer] = []
        self._waiting: list[Callable[[], None]] = []
        """Who is told when what is ready is committed, or given up."""
        self._flush: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        """Why the store refuses for good; nothing is committed any more."""

    def add(self, outcome: Outcome | UnscoredAnswer, settled: Callable[[], None] = lambda: None) -> None:
        """Commit this soon. `settled` is called once: when it is in the store, or when nobody tries any more."""
        self._ready.append(outcome)
        self._waiting.append(settled)
        self._start()

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
        if self._flush is not None:
            self._flush.cancel()
        self._tell(self._taken()[1])

    def _start(self) -> None:
        if self.error is not None:
            self._tell(self._taken()[1])
        elif self._flush is None and self._ready:
            self._flush = asyncio.create_task(self._commit_all())
            self._flush.add_done_callback(self._flushed)

    async def _commit_all(self) -> None:
        await asyncio.sleep(0)  # what comes in the same moment goes along
        while self._ready:
            batch, waiting = self._taken()
            try:
                await until_back(lambda batch=batch: self._commit(batch), self._is_away)  # type: ignore[misc]
            except Exception as error:
                self.error = error
                self._tell(self._taken()[1])
                return
            finally:
                self._tell(waiting)

    def _taken(self) -> tuple[list[Outcome | UnscoredAnswer], list[Callable[[], None]]]:
        taken = self._ready, self._waiting
        self._ready, self._waiting = [], []
        return taken

    @staticmethod
    def _tell(waiting: Sequence[Callable[[], None]]) -> None:
        for settled in waiting:
            settled()

    def _flushed(self, _: asyncio.Task[None]) -> None:
        """Begin with what came after the batch's last look for more: nobody may come after it and say so."""
        self._flush = None
        self._start()
