"""A circuit breaker: a target that is down ends its trial early, instead of every sample paying for its own patience."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from activities.targets.faults import Unreachable
from workflows.model.failures import shorten
from workflows.rules.error_counts import told

IN_A_ROW = 5
"""So many samples one after another, each given up after all its retries, make a target suspicious."""

T = TypeVar("T")


class TargetDown(Exception):
    """The target was given up for good. `kinds` counts what was met instead of answers."""

    def __init__(self, kinds: Counter[str], last: Unreachable) -> None:
        super().__init__(
            f"gave up on the target: {kinds.total()} samples in a row got no answer after all retries, the last of them alone "
            f"({told(kinds)}); last error: {shorten(str(last), 500)}"
        )
        self.kinds = kinds


class Breaker:
    """Watches the samples of one trial in this process.

    When several in a row were given up, the next ones wait while a single one is tried. If that is answered, all go on: an
    outage that is over costs no more than the samples it hit. If it is not, the target is down.
    """

    def __init__(self) -> None:
        self._in_a_row: Counter[str] = Counter()
        self._alone = asyncio.Lock()
        self._down: TargetDown | None = None

    async def answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """The sample's result. Raises TargetDown instead of making the call when that is pointless."""
        while self._is_suspicious:
            async with self._alone:
                if self._down is not None:
                    raise self._down
                if self._is_suspicious:
                    return await self._tried_alone(call)
        return await self._watched(call)

    @property
    def _is_suspicious(self) -> bool:
        return self._in_a_row.total() >= IN_A_ROW

    async def _tried_alone(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._watched(call)
        except Unreachable as error:
            self._down = TargetDown(self._in_a_row, error)
            raise self._down from error

    async def _watched(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            result = await call()
        except Unreachable as error:
            self._in_a_row[error.kind] += 1
            raise
        self._in_a_row.clear()
        return result


class Breakers:
    """One breaker per trial, as long as this process works on a shard of it."""

    def __init__(self) -> None:
        self._breakers: WeakValueDictionary[str, Breaker] = WeakValueDictionary()

    def of(self, trial_id: str) -> Breaker:
        return self._breakers.setdefault(trial_id, Breaker())
