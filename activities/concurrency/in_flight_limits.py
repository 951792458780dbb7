"""How much is in flight: limits that callers wait at, one or several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from activities.concurrency.fair_queue import FairQueue, current_caller


class Limit:
    """How much may be in flight in this process; can be changed while calls wait. Runs take turns by their priority."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._in_flight = 0
        self._waiting = FairQueue()

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def resize(self, capacity: int) -> None:
        """Take effect at once when growing, and as calls end when shrinking."""
        if capacity != self._capacity:
            self._capacity = max(1, capacity)
            self._admit()

    async def acquire(self) -> None:
        if self._in_flight < self._capacity and not self._waiting:
            self._in_flight += 1
            return
        turn = self._waiting.add(current_caller())
        self._admit()  # those before it may have been cancelled
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # admitted and cancelled in the same moment: pass the place on
            raise

    def release(self) -> None:
        self._in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._in_flight < self._capacity and self._waiting.admit():
            self._in_flight += 1


class Room:
    """Several limits that hold at once. Taken from the narrowest to the widest, so that none is held while waiting for one
    that others wait for in another order."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = limits

    async def acquire(self) -> None:
        taken: list[Limit] = []
        try:
            for limit in self._limits:
                await limit.acquire()
                taken.append(limit)
        except asyncio.CancelledError:
            for limit in taken:
                limit.release()
            raise

    def release(self) -> None:
        for limit in self._limits:
            limit.release()
