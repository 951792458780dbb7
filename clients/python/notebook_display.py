"""Progress below the cell of a notebook, drawn anew as the run goes on."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import uuid
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from clients.commands.context import Context
from clients.reports.facts import RunFacts
from clients.reports.notebook.progress_cell import MOST_LINES, FollowedRun, progress_cell, progress_text
from store.read.rows.run_rows import LiveProgress
from workflows.model.spec.request import OptimizationRequest

SECONDS_BETWEEN_PICTURES: Final = 0.5


def is_in_notebook() -> bool:
    """Whether what is displayed lands below a cell. A shell of IPython on a terminal has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay:
    """One output of a cell that follows one run."""

    def __init__(self) -> None:
        # Optuna's progress bars, of which nothing is shown, complain about what they would need in a notebook.
        warnings.filterwarnings("ignore", message="IProgress not found")
        self._display: Any = importlib.import_module("IPython.display")
        self._id = f"ratchet-{uuid.uuid4().hex}"
        self._shown = FollowedRun()
        self._html = ""
        self._drawn_at = 0.0
        self._draw(first=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._draw()

    def lines(self, lines: Iterable[str]) -> None:
        """What happened, the newest last."""
        self._shown.lines = [*self._shown.lines, *lines][-MOST_LINES:]

    def decided(self, decisions: Iterable[str]) -> None:
        """What rounds decided, and why."""
        self._shown.decisions = [*self._shown.decisions, *decisions][-1:]

    def measured(self, facts: RunFacts) -> None:
        """What there is to draw."""
        self._shown.facts = facts

    def note(self, text: str) -> None:
        """What the run waits for; empty when nothing is unusual."""
        if text != self._shown.note:
            self._shown.note = text
            self._draw()

    def update(self, progress: LiveProgress, request: OptimizationRequest | None) -> None:
        """The newest counters."""
        self._shown.progress, self._shown.request = progress, request or self._shown.request
        if time.monotonic() - self._drawn_at >= SECONDS_BETWEEN_PICTURES:
            self._draw()

    def warn(self, text: str) -> None:
        """What a person should know, however the run ends."""
        self._shown.warnings.append(text.removeprefix("ratchet: ").removeprefix("warning: "))

    def remove(self) -> None:
        """Show nothing any more: the run was refused, and what is raised says why."""
        self._publish("", "", first=False)

    def _draw(self, *, first: bool = False) -> None:
        html = progress_cell(self._shown)
        if html == self._html:
            return
        self._html, self._drawn_at = html, time.monotonic()
        self._publish(html, progress_text(self._shown), first=first)

    def _publish(self, html: str, text: str, *, first: bool) -> None:
        """A run goes on, whatever becomes of whoever looks at it: a kernel that ends is no error of the run."""
        publish = self._display.display if first else self._display.update_display
        with contextlib.suppress(Exception):
            publish({"text/html": html, "text/plain": text}, raw=True, display_id=self._id)


@dataclass(frozen=True)
class NotebookContext(Context):
    """Says below the cell what the command line says on lines."""

    display: NotebookDisplay

    def say(self, text: str = "") -> None:
        """For a person."""
        self.display.lines([text])
        self.display.note(text)

    def note(self, text: str) -> None:
        """What a person should know beside it."""
        self.display.warn(text)
