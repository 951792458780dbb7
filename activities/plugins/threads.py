"""Threads for plug-ins that are not async: daemons, because one that hangs can neither be stopped nor waited for.

The standard thread pool joins its threads when the interpreter exits, so a single hanging plug-in would keep a worker from
ever stopping.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

LONGEST_IDLE = 30.0
"""Seconds without work after which a thread ends."""


class RaisedCancelledError(Exception):
    """A plug-in raised CancelledError by itself: nobody cancelled anything."""

    def __init__(self) -> None:
        super().__init__("it raised CancelledError")


class _Job(NamedTuple):
    call: Callable[[], Any]
    context: contextvars.Context
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class PluginThreads:
    """Runs calls in daemon threads. The caller bounds how many run at once; threads are reused, and end when idle."""

    def __init__(self, name: str = "plugin") -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._hanging = 0

    @property
    def hanging(self) -> int:
        """Threads whose caller gave up on them and that still run."""
        return self._hanging

    async def run(self, call: Callable[[], Any]) -> Any:
        """The call's result or error, whatever it is, `SystemExit` included. Cancelling abandons the thread."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        self._jobs.put(_Job(call, contextvars.copy_context(), loop, done))
        try:
            raised, result = await done
        except asyncio.CancelledError:
            self._hanging += 1
            raise
        if raised is not None:
            raise RaisedCancelledError if isinstance(raised, asyncio.CancelledError) else raised
        return result

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=LONGEST_IDLE)
            except queue.Empty:
                with self._lock:
                    if self._idle == 0:
                        continue  # a job was promised to this thread in this very moment
                    self._idle -= 1
                    return
            if job is None:
                return
            answer: tuple[BaseException | None, Any]
            try:
                answer = (None, job.context.run(job.call))
            except BaseException as error:
                answer = (error, None)
            # Idle before the answer is out: the caller may come straight back, and should find this thread.
            with self._lock:
                self._idle += 1
            try:
                job.loop.call_soon_threadsafe(self._deliver, job.done, answer)
            except RuntimeError:
                return  # the loop is closed; nobody waits for the answer any more

    def _deliver(self, done: asyncio.Future[Any], answer: tuple[BaseException | None, Any]) -> None:
        if done.done():
            self._hanging -= 1  # it came back after all
        else:
            done.set_result(answer)
