"""A run while it goes on, drawn in place on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clients.reports.comparisons.score_differences import VERDICTS
from clients.reports.formatting import cached_text, duration_text
from clients.reports.headline import headline_of_row
from clients.reports.text.terminal_text import one_line
from clients.runs.lookup import TERMINAL
from workflows.model.spec.execution import Budget
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.decisions.time_left import seconds_left

if TYPE_CHECKING:
    from clients.reports.facts import RunFacts
    from store.read.rows.run_rows import LiveProgress

FRAMES_PER_SECOND = 8
WIDEST = 100
BAR = 28
TRIALS_SHOWN = 5
DECISIONS_SHOWN = 3


class LiveDisplay:
    """A panel that follows a run, with finished iterations scrolling past above it."""

    def __init__(self, run_id: str, request: OptimizationRequest | None = None, console: Console | None = None) -> None:
        self._run_id = run_id
        self._request = request
        self._progress: LiveProgress | None = None
        self._note = "starting"
        self._decisions: list[str] = []
        self._live = Live(self, console=console, refresh_per_second=FRAMES_PER_SECOND, transient=True)

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    def lines(self, lines: Iterable[str]) -> None:
        """Lines that stay, above the panel."""
        for line in lines:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def decided(self, decisions: Iterable[str]) -> None:
        """What rounds decided, and why; the newest stay in sight."""
        self._decisions = [*self._decisions, *decisions][-DECISIONS_SHOWN:]

    def measured(self, facts: RunFacts) -> None:
        """What there would be to draw; a terminal has no room for it."""

    def note(self, text: str) -> None:
        """What the run is waiting for; empty when nothing is unusual."""
        self._note = text

    def update(self, progress: LiveProgress, request: OptimizationRequest | None) -> None:
        """The newest counters."""
        self._progress, self._request = progress, request or self._request

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Panel(self._body(), title=Text(one_line(self._run_id)), title_align="left", width=min(options.max_width, WIDEST))

    def _body(self) -> Table:
        body = Table.grid(padding=(0, 2))
        body.add_column(style="dim", no_wrap=True)
        body.add_column(ratio=1)
        progress = self._progress
        if progress is None:
            body.add_row("Status", Text(self._note))
        else:
            self._fill(body, progress)
        body.add_row("", Text("Ctrl-C lets go of the run; it is not lost", style="dim"))
        return body

    def _fill(self, body: Table, progress: LiveProgress) -> None:
        status = f"{progress.status} · {doing_text(progress)}" + (f" · {self._note}" if self._note else "")
        body.add_row("Status", Text(status, style="yellow" if progress.status == "paused" else "bold"))
        body.add_row("Round", round_text(progress, self._request))
        counts = progress.counts
        body.add_row(
            "Trials",
            f"{counts.completed} done · {counts.running} running · {counts.failed} failed · {counts.stopped} stopped · "
            f"{counts.rejected} rejected",
        )
        body.add_row("In flight", self._in_flight(progress))
        body.add_row("In the search" if progress.finished_at is None else "Result", Text(score_text(progress)))
        body.add_row("Spend", spend_text(progress, self._request))
        body.add_row("Time", time_text(progress, self._request))
        for number, told in enumerate(self._decisions):
            body.add_row("" if number else "Decided", Text(told, overflow="ellipsis", no_wrap=True))

    def _in_flight(self, progress: LiveProgress) -> Table | str:
        if not progress.in_flight:
            return "nothing"
        rows = Table.grid(padding=(0, 1))
        rows.add_column(no_wrap=True)
        rows.add_column()
        rows.add_column(no_wrap=True)
        for trial in progress.in_flight[:TRIALS_SHOWN]:
            bar = ProgressBar(total=max(trial.expected, 1), completed=min(trial.answered, trial.expected), width=BAR)
            purpose = "" if trial.purpose in ("baseline", "candidate") else f" {trial.purpose}"
            rows.add_row(Text(one_line(trial.candidate_id)), bar, f"{trial.answered:,}/{trial.expected:,}{purpose}")
        left = len(progress.in_flight) - TRIALS_SHOWN
        if left > 0:
            rows.add_row(f"and {left} more", "", f"{progress.answered:,}/{progress.expected:,} in all")
        return rows


def doing_text(progress: LiveProgress) -> str:
    """`measuring the baseline`, `round 3`; how it ended."""
    if progress.status in TERMINAL:
        return one_line(progress.message)
    if progress.baseline_score is None:
        return "measuring the baseline"
    return f"round {progress.round + 1}" if progress.counts.running else f"{progress.round} rounds decided"


def round_text(progress: LiveProgress, request: OptimizationRequest | None) -> str:
    """`4 of at most 20`"""
    most = request.stop.max_rounds if request else 0
    return f"{progress.round} decided" + (f" of at most {most}" if most else "")


def score_text(progress: LiveProgress) -> str:
    """`0.61 → 0.84, r3-8f0c44a1, better in its round; to be confirmed`"""
    found = headline_of_row(progress)
    if progress.finished_at is not None or not found.in_search.words:
        return one_line(found.words)
    if found.in_search.best_candidate_id == progress.baseline_candidate_id:
        return f"{found.in_search.words}; nothing better yet"
    verdict = f", {VERDICTS[progress.search_verdict]} in its round" if progress.search_verdict else ""
    return one_line(f"{found.in_search.words}{verdict}; to be confirmed")


def spend_text(progress: LiveProgress, request: OptimizationRequest | None) -> str:
    """What was paid for, each beside its budget."""
    spend, budget = progress.spend, request.budget if request else Budget()
    parts = [
        f"cost {spend.cost:.4f}" + (f" of {budget.cost:g}" if budget.cost else "") if spend.cost or budget.cost else "",
        f"{spend.tokens:,}"
        + (f" of {budget.tokens:,}" if budget.tokens else "")
        + " tokens"
        + cached_text(progress.cached_tokens),
        f"{spend.samples:,}" + (f" of {budget.samples:,}" if budget.samples else "") + " samples",
        f"{spend.trials:,} of {budget.trials:,} trials" if budget.trials else "",
    ]
    return " · ".join(part for part in parts if part)


def time_text(progress: LiveProgress, request: OptimizationRequest | None) -> str:
    """Time gone, and the most that is left at the rate of so far."""
    elapsed = progress.elapsed_seconds(datetime.now(UTC))
    left = None
    if request is not None and progress.status == "running":
        left = seconds_left(request.stop, request.budget, progress.spend, progress.round, elapsed)
    return duration_text(elapsed) + (f" · at most {duration_text(left)} left" if left is not None else "")


class PlainDisplay:
    """For pipes and logs: the lines, and what is unusual, and nothing that moves; decisions where they are asked for."""

    def __init__(self, print_line: Callable[[str], None], *, decisions: bool = False) -> None:
        self._print = print_line
        self._tells_decisions = decisions
        self._noted = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._print(line)

    def decided(self, decisions: Iterable[str]) -> None:
        if self._tells_decisions:
            for told in decisions:
                self._print(f"  {told}")

    def measured(self, facts: RunFacts) -> None:
        return None

    def note(self, text: str) -> None:
        if text and text != self._noted:
            self._print(f"({text})")
        self._noted = text

    def update(self, progress: LiveProgress, request: OptimizationRequest | None) -> None:
        return None
