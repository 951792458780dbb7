"""A worker whose interpreter is held by somebody else's code for good ends, so that another one can go on.

Code that never gives the interpreter back, such as a regular expression without end, stops everything in its process: calls,
heartbeats, timeouts, signals. The operating system still counts the processor time that it takes, and ends the process when
the event loop has not said for too much of it that it lives. A process that sleeps, or was stopped, takes none.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LONGEST_HELD: Final = 30.0
"""Seconds of processor time, for each processor: threads that do not hold the interpreter may keep all of them busy."""

SECONDS_BETWEEN_SIGNS: Final = 2.0


@contextmanager
def ended_when_blocked(longest: float | None = None) -> Iterator[None]:
    """End this process (SIGPROF) when its event loop stands still while so much processor time is taken."""
    seconds = longest if longest is not None else LONGEST_HELD * processors()
    loop = asyncio.get_running_loop()
    sign: asyncio.TimerHandle

    def still_alive() -> None:
        nonlocal sign
        signal.setitimer(signal.ITIMER_PROF, seconds)
        sign = loop.call_later(min(SECONDS_BETWEEN_SIGNS, seconds / 4), still_alive)

    still_alive()
    try:
        yield
    finally:
        sign.cancel()
        signal.setitimer(signal.ITIMER_PROF, 0)


def processors() -> int:
    """How many this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
