"""The line of those who wait for budget: served one after the other, who has more already before who has less."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Place = tuple[int, int]
"""In the line: who has more already comes before who has less, then by their number."""


class WaitingLine:
    """Those who wait for budget, served one after the other."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._waiting: list[tuple[Place, asyncio.Future[None]]] = []
        self._taken = False

    def place(self, rank: int) -> Place:
        return rank, next(self._numbers)

    def is_overtaken(self, place: Place) -> bool:
        """Whether somebody waits who comes before this place."""
        return any(other < place and not turn.done() for other, turn in self._waiting[:1])

    @asynccontextmanager
    async def turn(self, place: Place) -> AsyncIterator[None]:
        if self._taken:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (place, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        self._taken = False
        while self._waiting and not self._taken:
            _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._taken = True
