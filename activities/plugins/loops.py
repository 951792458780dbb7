"""Event loops for async plug-ins: threads of their own, so that one that blocks does not block its worker.

All plug-ins of one package share a loop, because what they share, a client for instance, belongs to the loop it was made in.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog

from activities.plugins.threads import RaisedCancelledError
from workflows.model.spec.extensions.named_plugins import PROGRAM, is_of_program

log = structlog.get_logger("plugins")

LONGEST_BLOCK = 10.0
"""Seconds. A loop that does nothing else for so long is not waited for."""

SECONDS_BETWEEN_PULSES = 1.0

GRACE = 0.1
"""Seconds that a cancelled call gets to clean up; one that goes on regardless is abandoned."""


class TimeIsOver(Exception):
    """The call took longer than it may."""


class LoopBlocked(Exception):
    """The call was never made, or cannot go on: another one blocks the loop that it would run in."""


class PluginLoops:
    """The worker's loops for plug-ins, by package; each starts with the first call."""

    def __init__(self, longest_block: float = LONGEST_BLOCK, program: asyncio.AbstractEventLoop | None = None) -> None:
        """`program` is the loop of the program that the worker runs in, where that has one."""
        self._longest_block = longest_block
        self._program = program
        self._loops: dict[str, PluginLoop] = {}

    def of(self, reference: str) -> PluginLoop:
        package = PROGRAM if is_of_program(reference) else reference.partition(":")[0].partition(".")[0]
        loop = self._loops.get(package)
        if loop is None:
            loop = PluginLoop(package, self._longest_block, self._program if package == PROGRAM else None)
            self._loops[package] = loop
        return loop

    def close(self) -> None:
        """Let the threads end; one that is blocked ends with the process."""
        loops, self._loops = self._loops, {}
        for loop in loops.values():
            loop.stop()


class _Call:
    """One call, as both threads know it."""

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self.make = make
        self.context = contextvars.copy_context()
        self.home = asyncio.get_running_loop()
        self.done: asyncio.Future[tuple[BaseException | None, Any]] = self.home.create_future()
        self.task: asyncio.Task[Any] | None = None
        self.began_at: float | None = None
        self.given_up = False

    def settle(self, answer: tuple[BaseException | None, Any]) -> None:
        if not self.done.done():
            self.done.set_result(answer)


class PluginLoop:
    """One loop in a thread, and a watch over whether it still turns."""

    def __init__(self, name: str, longest_block: float, program: asyncio.AbstractEventLoop | None = None) -> None:
        """`program` is a loop that turns already, and that others end."""
        self._name = name
        self._longest_block = longest_block
        self._is_ours = program is None
        self._loop = program or _new_event_loop()
        self._thread: int | None = None
        """Known once it has turned."""
        if self._is_ours:
            threading.Thread(target=self._loop.run_forever, name=f"plugin-loop-{name}", daemon=True).start()
        self._calls: set[_Call] = set()
        self._watching: asyncio.Task[None] | None = None
        self._turned_at = time.monotonic()
        self.blocks = False
        """Its plug-ins have blocked it for too long before, and should run in processes."""

    def stop(self) -> None:
        if self._is_ours:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """In a loop that others have closed nothing begins any more: whoever waits is let go by them, too."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    async def run(self, make: Callable[[], Awaitable[Any]], timeout: float | None = None) -> Any:
        """What the awaitable gives or raises, whatever that is, `SystemExit` included. The time counts from when it begins.

        Raises LoopBlocked when others do not let it begin, or go on.
        """
        call = _Call(make)
        self._calls.add(call)
        if self._watching is None or self._watching.done():
            self._turned_at = time.monotonic()
            self._watching = asyncio.create_task(self._watch())
        self._soon(self._begin, call)
        try:
            await self._finished(call, timeout)
        except BaseException:
            await self._give_up(call)
            raise
        finally:
            self._calls.discard(call)
        error, result = call.done.result()
        if error is not None:
            raise error
        return result

    async def _finished(self, call: _Call, timeout: float | None) -> None:
        left = timeout
        while True:
            await asyncio.wait({call.done}, timeout=left)
            if call.done.done():
                return
            assert timeout is not None
            ends_at = timeout + (call.began_at or time.monotonic())
            left = ends_at - time.monotonic()
            if left > 0:
                continue
            if self._is_held_up_by_another(call):
                raise LoopBlocked(self._told())
            raise TimeIsOver(self._told() if self._is_stuck else "")

    # -- in the loop's own thread -------------------------------------------------------------------------------------------

    def _begin(self, call: _Call) -> None:
        if call.given_up:
            return
        call.began_at, self._thread = time.monotonic(), threading.get_ident()
        call.task = self._loop.create_task(_settled(call.make), context=call.context)
        call.task.add_done_callback(lambda task: self._deliver(call, task))

    def _deliver(self, call: _Call, task: asyncio.Task[Any]) -> None:
        if task.cancelled() and not self._is_ours:
            return  # a program that ends cancels all that is under way: that is no answer
        answer = (RaisedCancelledError(), None) if task.cancelled() else task.result()
        try:
            call.home.call_soon_threadsafe(call.settle, answer)
        except RuntimeError:
            return  # the worker's loop is closed; nobody waits for the answer any more

    @staticmethod
    def _cancel(call: _Call) -> None:
        if call.task is not None:
            call.task.cancel()

    # -- in the worker's loop -----------------------------------------------------------------------------------------------

    async def _give_up(self, call: _Call) -> None:
        call.given_up = True
        self._soon(self._cancel, call)
        await asyncio.wait({call.done}, timeout=GRACE)

    async def _watch(self) -> None:
        """As long as there are calls: have the loop show that it turns, and let nobody wait for one that does not."""
        while self._calls:
            self._soon(self._turn)
            pause, since = min(SECONDS_BETWEEN_PULSES, self._longest_block / 4), time.monotonic()
            await asyncio.sleep(pause)
            if time.monotonic() - since > pause + self._longest_block / 4:
                self._turned_at = time.monotonic()  # the whole process stood still, so nothing is known of this loop
            if not self._is_stuck:
                continue
            if not self.blocks:
                self.blocks = True
                log.warning("an async plug-in blocks its event loop", package=self._name, where=self._where())
            for call in [call for call in self._calls if call.began_at is None]:
                call.given_up = True
                call.settle((LoopBlocked(self._told()), None))

    def _turn(self) -> None:
        self._turned_at, self._thread = time.monotonic(), threading.get_ident()

    @property
    def _is_stuck(self) -> bool:
        return time.monotonic() - self._turned_at > self._longest_block

    def _is_held_up_by_another(self, call: _Call) -> bool:
        return self._is_stuck and call.task is not asyncio.current_task(self._loop)

    def _told(self) -> str:
        where = self._where()
        return f"{where} blocks the event loop of {self._name}: await what takes long, or write `def`, which runs in threads"

    def _where(self) -> str:
        """The place in other people's code that the loop's thread is in."""
        frame = sys._current_frames().get(self._thread or 0)
        frames = traceback.extract_stack(frame) if frame is not None else []
        theirs = [place for place in frames if Path(place.filename) not in _OURS and "asyncio" not in place.filename]
        return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno} ({theirs[-1].name})" if theirs else "an unknown place"


_OURS = {Path(__file__), Path(threading.__file__)}


async def _settled(make: Callable[[], Awaitable[Any]]) -> tuple[BaseException | None, Any]:
    """Result or error as values. `SystemExit` out of a task would stop the whole event loop."""
    try:
        return None, await make()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error, None


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # no uvloop for this platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
