"""How many calls of a shard are in flight, told with its heartbeats, so that whoever takes over after a crash knows what was
perhaps paid for in vain. Under a budget that is known exactly, from what was set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Flight:
    """The calls in flight of one attempt, and those that the attempts before it lost."""

    def __init__(self, attempt: int, heard: Sequence[Any]) -> None:
        """`heard` is what the last heartbeat of the attempts before said."""
        known = len(heard) == 2 and all(isinstance(number, int) for number in heard)
        self._left: int | None = int(heard[0]) if known else None
        self.lost: int = int(heard[1]) if known else 0
        self._is_first = attempt == 1
        self._count: Callable[[], int] = lambda: 0

    def begins(self, unanswered: int, side_by_side: int, count: Callable[[], int]) -> None:
        """This attempt goes on with so many pairs. A worker that died before its first heartbeat may have had any in flight."""
        if not self._is_first:
            self.lost += min(unanswered, side_by_side if self._left is None else self._left)
        self._count = count

    def told(self) -> tuple[int, int]:
        """What the next attempt has to know."""
        return self._count(), self.lost
