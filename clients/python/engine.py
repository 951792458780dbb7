"""What a program uses together with the command line: Temporal, PostgreSQL, and a worker for decisions, all outside of it.

They are reached from an event loop in a thread of its own, so that it makes no difference whether the program has one. Embedded
servers start with the first run, and are let go when the program ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from clients.commands.context import CommandError
from clients.runs.service.servers import Servers, reach_servers
from clients.runs.service.workers import Workers, workers_for
from ratchet.errors import RunError

T = TypeVar("T")
ENDING_TAKES_AT_MOST: Final = 30.0
"""Seconds that runs get to hand back what is in flight when the program ends."""

_engines: dict[Path, Engine] = {}
_one_at_a_time = threading.Lock()


def engine_at(home: Path) -> Engine:
    """The program's engine for the servers of a home."""
    with _one_at_a_time:
        if not _engines:
            _let_logging_decide()
            # Before the threads of executors end, which leaving takes; `atexit` comes after that.
            getattr(threading, "_register_atexit", atexit.register)(close)
        place = home.absolute()
        if place not in _engines:
            _engines[place] = Engine(place)
        return _engines[place]


def close() -> None:
    """Let go of every run and every server of this program. Runs are not lost; the next call reaches the servers anew."""
    with _one_at_a_time:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.end()


def _let_logging_decide() -> None:
    """What we log is for the program's `logging` to show or not, and never for its standard output."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
        )
    for name in ("temporalio", "temporal"):  # what a run says of itself is in its events; without handlers nothing is printed
        logging.getLogger(name).addHandler(logging.NullHandler())
    core = LoggingConfig(
        TelemetryFilter(core_level="WARN", other_level="ERROR"), LogForwardingConfig(logging.getLogger("temporal"))
    )
    with contextlib.suppress(RuntimeError):  # the program has a runtime of its own already
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=core)), error_if_already_set=True)


class Engine:
    """The servers and workers of one home, and the loop that asks them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.let_go = asyncio.Event()
        """Set once the program ends: whatever is attended is let go."""
        self._loop = asyncio.new_event_loop()
        self._exits = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._opened: tuple[Servers, Workers] | None = None
        self._attended: set[Future[Any]] = set()
        self._is_over = False
        self._thread = threading.Thread(target=self._turn, name="ratchet", daemon=True)
        self._thread.start()

    def _turn(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(_ended(asyncio.all_tasks(self._loop)))
        self._loop.close()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done in our loop, and do not wait for it. The program's end waits."""
        future = self._asked(work)
        self._attended.add(future)
        future.add_done_callback(self._attended.discard)
        return future

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in our loop, and wait for it, interruptibly."""
        future = self._asked(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _asked(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._is_over:
            work.close()
            raise RunError("ratchet.close() let go of the servers; make the call again, which reaches them anew")
        return asyncio.run_coroutine_threadsafe(_told(work), self._loop)

    def soon(self, event: asyncio.Event) -> None:
        """Set an event of our loop from anywhere."""
        self._loop.call_soon_threadsafe(event.set)

    async def servers(self) -> Servers:
        """The servers, started where that is our task."""
        return (await self._reached())[0]

    async def workers(self) -> Workers:
        """The worker for decisions that runs beside the program, on embedded servers."""
        return (await self._reached())[1]

    async def _reached(self) -> tuple[Servers, Workers]:
        async with self._opening:
            if self._opened is None:
                async with AsyncExitStack() as exits:
                    servers = await exits.enter_async_context(reach_servers(self.home))
                    workers = await exits.enter_async_context(workers_for(servers, self.home))
                    self._exits = exits.pop_all()
                self._opened = servers, workers
            return self._opened

    def end(self) -> None:
        """Let go of what is attended, then of the servers."""
        self._is_over = True
        self.soon(self.let_go)
        for future in list(self._attended):
            with contextlib.suppress(Exception):
                future.result(ENDING_TAKES_AT_MOST)
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._exits.aclose(), self._loop).result(ENDING_TAKES_AT_MOST)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ENDING_TAKES_AT_MOST)


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _told(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except CommandError as error:
        raise RunError(str(error)) from None
