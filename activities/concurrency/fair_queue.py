"""Whose turn it is, when several runs wait for the same thing: each gets turns in proportion to its priority.

A run of the next higher priority gets twice as many turns. Every run that waits gets some, so nobody waits for ever; a run
that does not wait leaves its turns to the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from workflows.model.spec.limits import DEFAULT_PRIORITY, RateLimit


@dataclass(slots=True)
class Caller:
    """The run that calls are made for. Its priority and its limits may change while it goes on."""

    run_id: str = ""
    priority: int = DEFAULT_PRIORITY
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        return int(2 ** (self.priority - 1))


NOBODY = Caller()
_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


def current_caller() -> Caller:
    """Whom the running task works for."""
    return _caller.get()


@contextmanager
def calling_for(caller: Caller) -> Iterator[None]:
    """Everything started inside the block works for this run."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


class FairQueue:
    """Those who wait, by run. A run's turns are spaced by the inverse of its weight, and the next in time comes first."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._callers: dict[str, Caller] = {}
        self._next_turn: dict[str, float] = {}
        self._time = 0.0

    def __len__(self) -> int:
        return sum(len(line) for line in self._waiting.values())

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def weight(self) -> int:
        """Of all runs that wait, together."""
        return sum(self._callers[run_id].weight for run_id in self._waiting)

    def add(self, caller: Caller) -> asyncio.Future[None]:
        """A place in the queue, whose turn has come when it has a result."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if caller.run_id not in self._waiting:
            self._waiting[caller.run_id] = deque()
            # Who comes back too early to have earned another turn is not served as if it were new.
            self._next_turn[caller.run_id] = max(self._next_turn.get(caller.run_id, 0.0), self._time)
        self._callers[caller.run_id] = caller
        self._waiting[caller.run_id].append(turn)
        return turn

    def admit(self) -> bool:
        """Give the next one its turn; whether anybody was there to take it."""
        while self._waiting:
            run_id = min(self._waiting, key=self._next_turn.__getitem__)
            turn = self._waiting[run_id].popleft()
            taken = not turn.done()
            if taken:
                self._time = self._next_turn[run_id]
                self._next_turn[run_id] += 1.0 / self._callers[run_id].weight
                turn.set_result(None)
            if not self._waiting[run_id]:
                self._leave(run_id)
            if taken:
                return True
        return False

    def fail(self, error: Exception) -> None:
        """Tell everybody who waits that there will be no turn."""
        for line in self._waiting.values():
            for turn in line:
                if not turn.done():
                    turn.set_exception(error)
        self._waiting.clear()
        self._callers.clear()

    def _leave(self, run_id: str) -> None:
        del self._waiting[run_id], self._callers[run_id]
        self._next_turn = {name: turn for name, turn in self._next_turn.items() if name in self._waiting or turn > self._time}
