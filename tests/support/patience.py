"""Waiting for what other processes do; its bound only ends what would never end."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 150.0


def until(condition: Callable[[], bool], seconds_between: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(seconds_between)
