"""Running a command's coroutine so that Ctrl-C is understood: once to let go cleanly, twice to be gone at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter

from clients.commands.context import Context, ExitCode
from clients.embedded.home import Home
from clients.logs import configure_logs
from clients.settings import observation_settings
from clients.telemetry import told_elsewhere, use_runtime
from clients.traces import TRACING

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """What Ctrl-C does at the moment: end the command, or, while a run is watched, let go of the run."""

    def __init__(self, task: asyncio.Task[int]) -> None:
        self._task = task
        self._event: asyncio.Event | None = None
        self._count = 0

    def happened(self) -> None:
        self._count += 1
        if self._count > 1:
            sys.stdout.write("\x1b[?25h" if sys.stdout.isatty() else "")  # the cursor, which a display may have hidden
            sys.stdout.flush()
            os._exit(ExitCode.DETACHED)  # servers and workers notice that we are gone
        if self._event is not None:
            self._event.set()
        else:
            self._task.cancel()

    @contextmanager
    def instead_set(self, event: asyncio.Event) -> Iterator[None]:
        """Within the block the first Ctrl-C sets the event, and ends nothing."""
        self._event = event
        try:
            yield
        finally:
            self._event = None


def run_async(
    context: Context, work: Callable[[Interruption], Awaitable[int | None]], *, serves: bool = False, log: str = ""
) -> int:
    """Run a command. Its logs go to a file in its home, never over what it shows; one that stays gives them to stderr where it
    is told in which form. One that serves many gets the fast loop."""
    if log:
        configure_logs(form="text" if log == "text" else "json")
    else:
        _quiet_logs(context)
    _be_observed(context, serves=serves)
    with asyncio.Runner(loop_factory=_fast_loop() if serves else None) as runner:
        return runner.run(_interruptible(work))


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # no uvloop for this platform
        return None
    return uvloop.new_event_loop


async def _interruptible(work: Callable[[Interruption], Awaitable[int | None]]) -> int:
    loop = asyncio.get_running_loop()
    task: asyncio.Task[int] = loop.create_task(_code(lambda: work(interruption)))
    interruption = Interruption(task)
    for number in SIGNALS:
        loop.add_signal_handler(number, interruption.happened)
    try:
        return await task
    except asyncio.CancelledError:
        return ExitCode.DETACHED
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _code(work: Callable[[], Awaitable[int | None]]) -> int:
    return int(await work() or ExitCode.DONE)


def _quiet_logs(context: Context) -> None:
    home = Home.at(context.home)
    if not home.path.exists():  # a command that only looks makes none: folders below would take it for theirs
        configure_logs(file=home.log("ratchet"), making=home.make_logs)
        return
    try:
        home.make_logs()
        configure_logs(file=home.log("ratchet"))
    except OSError:  # a home that cannot be written; nothing we log is worth failing for
        logging.getLogger().handlers[:] = [logging.NullHandler()]


def _be_observed(context: Context, *, serves: bool) -> None:
    """Show metrics where the command stays for others to look at it, and trace what it starts."""
    core = LoggingConfig(
        TelemetryFilter(core_level="WARN", other_level="ERROR"), LogForwardingConfig(logging.getLogger("temporal"))
    )
    observed = observation_settings()
    shown_at = use_runtime(observed if serves else observed.without_metrics, core)
    if shown_at is not None and shown_at != observed.metrics:
        context.note(f"ratchet: {told_elsewhere(observed, shown_at)}")
    TRACING.begin(observed)
