"""How a worker notices that the command which started it is gone: one that is killed tells nobody, but the kernel does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_LOOKS = 0.05
"""Where the kernel announces nobody's end."""


@contextmanager
def when_gone(parent: int, then: Callable[[], None]) -> Iterator[None]:
    """Call `then`, in the running loop, when the parent has ended: at once where the kernel says so."""
    loop = asyncio.get_running_loop()
    descriptor = _announced(parent)
    watching: asyncio.Task[None] | None = None

    def gone() -> None:
        loop.remove_reader(descriptor)
        then()

    if descriptor >= 0:
        loop.add_reader(descriptor, gone)
    else:
        watching = loop.create_task(_watched(parent, then))
    if os.getppid() != parent:  # before anybody watched
        then()
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
        if descriptor >= 0:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _announced(process: int) -> int:
    """A descriptor that can be read once the process has ended; -1 where there is no such thing, or no such process."""
    with contextlib.suppress(OSError):
        if sys.platform == "linux":
            return os.pidfd_open(process)
        if sys.platform == "darwin":
            queue = select.kqueue()
            ends = select.kevent(process, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            queue.control([ends], 0)
            descriptor = os.dup(queue.fileno())
            queue.close()
            return descriptor
    return -1


async def _watched(parent: int, then: Callable[[], None]) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 (nobody announces it)
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    then()


def end_by_force_after(seconds: float) -> None:
    """Nobody is left who would kill a process of which a plug-in does not let go."""
    timer = threading.Timer(seconds, os._exit, [1])
    timer.daemon = True
    timer.start()
