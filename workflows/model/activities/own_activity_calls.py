"""One call of an activity of the user's, as the workflow that makes it is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from ratchet._frozen import Payload

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)
"""Between two attempts."""


class OwnActivityCall(Payload):
    """Which activity is called, with what, and for how long that is tried."""

    activity: str
    task_queue: str
    argument: JsonValue
    timeout: timedelta
    heartbeat: timedelta | None = None
    attempts: int = 3
    patience: timedelta = timedelta(minutes=10)
    """How long it waits for a worker that takes it."""

    @property
    def longest(self) -> timedelta:
        """When it is over in any case: each attempt may wait for a worker, take its time, and be followed by a pause."""
        return self.attempts * (self.patience + self.timeout + LONGEST_PAUSE) + LONGEST_PAUSE
