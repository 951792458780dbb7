"""Staying with a run until it ends or the person lets go of it."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, Protocol, Self

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from clients.commands.context import CommandError, Context, ExitCode
from clients.reports.facts import RunFacts, looks_further
from clients.reports.load import facts_of, request_in_force
from clients.reports.text.batches_text import batch_text
from clients.reports.text.boxes import Verbosity
from clients.reports.text.first_look import first_look_lines
from clients.reports.text.live import LiveDisplay, PlainDisplay
from clients.reports.text.progress_lines import OF_THE_SEARCH, decision_texts, progress_lines, told
from clients.runs.identity import is_plugin_queue
from clients.runs.lookup import TERMINAL, known_run
from clients.runs.service.pollers import unserved_activities
from clients.runs.service.run_code import CodeNotes, told_foreign, why_unserved
from clients.runs.service.servers import AWAY_AT_MOST, Servers, ServersAway, is_unreachable, told_away
from clients.runs.service.workers import Workers
from clients.runs.views.waits import waits_of
from store.read.rows.report_rows import RunReport
from store.read.rows.run_rows import LiveProgress
from workflows.model.failures import INVALID_REQUEST
from workflows.model.spec.request import OptimizationRequest

POLL = 0.25
DESCRIBE_EVERY = 2.0
STILL_FOR = 5.0
"""Seconds without any change after which we look whether anybody serves the run."""
READING_MAY_TAKE = 0.1
"""The share of the time that may be spent on reading whole reports for the lines."""
WIDEST = 100

Following = Literal["ended", "let go", "asks"]
"""Why a run is not followed any further. `asks`: it waits for a person to have taken a first look."""


class Display(Protocol):
    """Where progress is shown."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...
    def lines(self, lines: Iterable[str]) -> None: ...
    def decided(self, decisions: Iterable[str]) -> None: ...
    def measured(self, facts: RunFacts) -> None: ...
    def note(self, text: str) -> None: ...
    def update(self, progress: LiveProgress, request: OptimizationRequest | None) -> None: ...


def display_for(context: Context, run_id: str, verbosity: Verbosity) -> Display:
    """A moving picture on a terminal, plain lines elsewhere; on stderr when stdout is for JSON."""
    if not context.json and sys.stdout.isatty():
        return LiveDisplay(run_id)
    return PlainDisplay(context.note if context.json else context.say, decisions=verbosity is Verbosity.FULL)


@dataclass
class RunFollower:
    """Watches one run."""

    servers: Servers
    run_id: str
    display: Display
    notes: CodeNotes | None = None
    """What code was noted here, to say why a run's plug-ins are not served."""
    asks: bool = False
    """Whether to come back with a run that asks whether to go on after its first look."""
    shown: int | None = None
    decided: int = 0
    """Rounds whose decisions were told."""
    request: OptimizationRequest | None = None
    _last: LiveProgress | None = None
    _changed_at: float = 0.0
    _described_at: float = 0.0
    _next_reading: float = 0.0
    _unread: bool = False
    """Something happened that the lines do not tell yet."""
    _away_since: float | None = None
    _own_queues: frozenset[str] = frozenset()

    async def until_end(self, let_go: asyncio.Event, workers: Workers) -> Following:
        """Follow until there is a reason to stop. Raises when our own workers do not start."""
        hopeless = asyncio.create_task(workers.until_hopeless())
        letting_go = asyncio.create_task(let_go.wait())
        self._changed_at = time.monotonic()
        self._own_queues = workers.task_queues
        try:
            with self.display:
                while not await self._look():
                    await asyncio.wait({hopeless, letting_go}, timeout=POLL, return_when=asyncio.FIRST_COMPLETED)
                    if letting_go.done():
                        return "let go"
                    if hopeless.done():
                        raise hopeless.result()
                await self._show_lines()
            return "asks" if self._is_asking else "ended"
        finally:
            for task in (hopeless, letting_go):
                task.cancel()
            await asyncio.gather(hopeless, letting_go, return_exceptions=True)

    async def _look(self) -> bool:
        """Show what is new; whether the run is over, or asks something."""
        try:
            over = await self._look_once()
        except Exception as error:
            if not is_unreachable(error):
                raise
            self._tolerate(error)
            return False
        if self._away_since is not None:
            self._away_since = None
            self.display.note("")
        return over

    def _tolerate(self, error: Exception) -> None:
        """Embedded servers come back by themselves; others get a while."""
        now = time.monotonic()
        self._away_since = self._away_since or now
        if not self.servers.embedded and now - self._away_since > AWAY_AT_MOST:
            raise ServersAway(
                f"a server is away: {told_away(error)}; the run is not lost: ratchet watch {self.run_id}"
            ) from error
        self.display.note("a server does not answer, trying again")

    async def _look_once(self) -> bool:
        now = time.monotonic()
        progress = await self.servers.reader.runs.progress(self.run_id)
        if progress is not None:
            await self._show(progress, now)
            if progress.status in TERMINAL or self._is_asking:
                return True
        if now - self._described_at > (DESCRIBE_EVERY if progress is not None else POLL):
            self._described_at = now
            if not (await known_run(self.servers, self.run_id)).is_open:
                return True
        if now - self._changed_at > STILL_FOR and (progress is None or progress.status != "paused"):
            self._changed_at = now
            self.display.note(await self._who_is_missing())
        return False

    @property
    def _is_asking(self) -> bool:
        """A run that was asked to ask, and rests before its first round."""
        run, request = self._last, self.request
        if not self.asks or run is None or request is None or request.execution.first_look != "ask":
            return False
        return run.status == "paused" and run.round == 0 and run.baseline_score is not None

    async def _show(self, progress: LiveProgress, now: float) -> None:
        if self.request is None:
            run = await self.servers.reader.runs.load(self.run_id)
            self.request = request_in_force(run) if run is not None else None
        before, self._last = self._last, progress
        if before is None or before.counts != progress.counts or before.answered != progress.answered:
            self._changed_at = now
            self.display.note("")
        self.display.update(progress, self.request)
        if progress.status in TERMINAL:
            return
        self._unread |= before is None or before.counts != progress.counts or before.round != progress.round
        if self._unread and now >= self._next_reading:
            self._unread = False
            await self._show_lines()
            self._next_reading = time.monotonic() + (time.monotonic() - now) / READING_MAY_TAKE

    async def _show_lines(self) -> None:
        report = await self.servers.reader.runs.report(self.run_id)
        if report is not None:
            self._tell(report)

    def _tell(self, report: RunReport) -> None:
        facts = facts_of(report)
        self.request = request_in_force(report.run)
        lines = progress_lines(facts, shown=self.shown)
        if self.shown is None and looks_further(facts):
            lines.insert(1, OF_THE_SEARCH)
        if facts.first_look is not None and not self.shown and told(facts):  # after the line of the baseline
            look = first_look_lines(facts.first_look, min(shutil.get_terminal_size().columns, WIDEST))
            place = lines.index(next(line for line in lines if " Iteration 0: " in line)) + 1
            lines[place:place] = look
        self.shown = told(facts)
        self.display.lines(lines)
        self.display.decided(decision_texts(facts, self.decided))
        self.decided = len(facts.rounds)
        self.display.measured(facts)

    async def _who_is_missing(self) -> str:
        """Which of the run's task queues nobody serves, neither others nor, once they are up, workers of ours; else which batch
        of a provider is waited for."""
        run = await known_run(self.servers, self.run_id)
        missing = [queue for queue in await waits_of(self.servers, run) if queue not in self._own_queues]
        if not missing or run.execution is None:
            batches = [one for one in await self.servers.reader.batches.waiting(self.run_id) if one.state != "lost"]
            more = f", and {len(batches) - 1} more" if len(batches) > 1 else ""
            return f"waits for batch {batch_text(batches[0], datetime.now(UTC))}{more}" if batches else ""
        if self.request is not None:
            unserved = await unserved_activities(self.servers.client, self.request)
            if unserved:
                return unserved[0]
        queue = missing[0]
        if is_plugin_queue(queue, run.execution.task_queue):
            why = None if self.notes is None else await asyncio.to_thread(why_unserved, self.notes, run)
            return f"nobody serves task queue {queue!r}: {why or await told_foreign(run)}"
        return f"nobody serves task queue {queue!r}; start a worker there: ratchet worker"


async def why_it_was_refused(servers: Servers, run_id: str) -> CommandError:
    """The reason of a run that ended before it left anything in the store."""
    try:
        await servers.client.get_workflow_handle(run_id).result()
    except WorkflowFailureError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError):
            code = ExitCode.BAD_INPUT if cause.type == INVALID_REQUEST else ExitCode.FAILED
            return CommandError(f"run {run_id} was refused: {cause.message}", code, {"run_id": run_id})
        code = ExitCode.CANCELLED if type(cause).__name__ == "CancelledError" else ExitCode.FAILED
        return CommandError(f"run {run_id} ended before it began: {cause}", code, {"run_id": run_id})
    return CommandError(f"run {run_id} ended, but left nothing in the store", ExitCode.FAILED, {"run_id": run_id})
