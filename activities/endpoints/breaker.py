"""A circuit breaker: a target that is down ends its trial early, instead of every sample paying for its own patience."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from activities.targets.faults import Unreachable
from workflows.model.failures import shorten
from workflows.rules.scoring.error_counts import told

IN_A_ROW = 5
"""So many samples one after another, each given up after all its retries, make a target suspicious."""

TRIES_IN_A_ROW = 10
"""So many tries one after another without an answer, of whatever samples: from then on no more than IN_A_ROW go on trying."""

T = TypeVar("T")


class TargetDown(Exception):
    """The target was given up for good. `kinds` counts what was met instead of answers."""

    def __init__(self, kinds: Counter[str], last: Unreachable) -> None:
        super().__init__(
            f"gave up on the target: {kinds.total()} samples in a row got no answer after all retries, the last of them alone "
            f"({told(kinds)}); last error: {shorten(str(last), 500)}"
        )
        self.kinds = kinds


class Effort:
    """What one sample does for its answer: one try, or several."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker

    def got_nothing(self) -> None:
        """A try ended without an answer."""
        self._breaker.missed()

    def got_an_answer(self) -> None:
        """The endpoint is there, whatever it said."""
        self._breaker.heard()

    async def held_up(self) -> float:
        """Waits until another try is worth it, and says for how many seconds. Raises TargetDown when none is."""
        since = time.monotonic()
        await self._breaker.admission_of(self)
        return time.monotonic() - since


class Breaker:
    """Watches the samples of one trial in this process.

    When nothing is answered any more, only a few samples go on trying and all others wait. When these were given up, a single
    one is tried. If one of them is answered, all go on: an outage that is over costs no more than the samples it hit. If the
    last one is not, the target is down.
    """

    def __init__(self) -> None:
        self._in_a_row: Counter[str] = Counter()
        self._tries = 0
        self._trying: set[Effort] = set()
        self._alone: Effort | None = None
        self._down: TargetDown | None = None
        self._changed = asyncio.Event()

    async def answered(self, call: Callable[[Effort], Awaitable[T]]) -> T:
        """Return the sample's result; raise TargetDown instead of making the call when that is pointless.

        `call` reports to the effort that it is given how its tries end.
        """
        mine = Effort(self)
        try:
            await self.admission_of(mine)
            result = await call(mine)
        except Unreachable as error:
            self._in_a_row[error.kind] += 1
            if self._alone is mine:
                self._down = TargetDown(self._in_a_row, error)
                raise self._down from error
            raise
        else:
            self._in_a_row.clear()
            self.heard()
            return result
        finally:
            self._trying.discard(mine)
            if self._alone is mine:
                self._alone = None
            self._tell()

    def missed(self) -> None:
        """Somebody tried and got no answer."""
        self._tries += 1

    def heard(self) -> None:
        """Somebody got an answer."""
        self._tries = 0
        self._trying.clear()
        self._tell()

    async def admission_of(self, mine: Effort) -> None:
        """Waits until this sample may try, for the first time or again. Raises TargetDown when that is pointless."""
        while not self._admits(mine):
            await self._changed.wait()

    def _admits(self, mine: Effort) -> bool:
        if self._down is not None:
            raise self._down
        given_up = self._in_a_row.total()
        if given_up >= IN_A_ROW:
            self._alone = self._alone or mine
            return self._alone is mine
        if self._tries < TRIES_IN_A_ROW or mine in self._trying:
            return True
        if len(self._trying) + given_up < IN_A_ROW:
            self._trying.add(mine)
            return True
        return False

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Breakers:
    """One breaker per trial, as long as this process works on a shard of it."""

    def __init__(self) -> None:
        self._breakers: WeakValueDictionary[str, Breaker] = WeakValueDictionary()

    def of(self, trial_id: str) -> Breaker:
        return self._breakers.setdefault(trial_id, Breaker())
