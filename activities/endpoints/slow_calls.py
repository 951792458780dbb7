"""Whether calls to an endpoint that take too long are the exception there: only then is it worth making one again."""

from __future__ import annotations

from collections import deque

REMEMBERED = 50
"""The last so many calls decide."""

ALWAYS_FORGIVEN = 5
"""So many slow ones say nothing yet."""

LARGEST_SHARE = 0.4


class Slowness:
    """Counts the calls to one endpoint that were answered in time, and those that took too long."""

    def __init__(self) -> None:
        self._slow: deque[bool] = deque(maxlen=REMEMBERED)

    def in_time(self) -> None:
        self._slow.append(False)

    def too_long(self) -> None:
        self._slow.append(True)

    @property
    def is_exception(self) -> bool:
        return sum(self._slow) <= ALWAYS_FORGIVEN + LARGEST_SHARE * len(self._slow)
