"""A run while it goes on, below a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clients.reports.facts import RunFacts, looks_further
from clients.reports.headline import headline_of_row
from clients.reports.notebook.markup import Markup, cell, element, rows
from clients.reports.notebook.result_cell import brief, head
from clients.reports.notebook.trial_chart import trial_chart
from clients.reports.text.live import TRIALS_SHOWN, doing_text, round_text, score_text, spend_text, time_text
from clients.runs.lookup import TERMINAL
from workflows.model.spec.request import OptimizationRequest

if TYPE_CHECKING:
    from store.read.rows.run_rows import LiveProgress, TrialInFlight

NEWEST: Final = 4
"""How many lines are shown of what happened, while it happens."""
MOST_LINES: Final = 400


@dataclass
class FollowedRun:
    """What is known of a run that is followed."""

    run_id: str = ""
    progress: LiveProgress | None = None
    request: OptimizationRequest | None = None
    facts: RunFacts | None = None
    """As of the last trial that was told."""
    note: str = ""
    """What it waits for."""
    warnings: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.progress is not None and self.progress.status in TERMINAL


def progress_cell(shown: FollowedRun) -> str:
    """Write how far a run is. One that is over is short: its result shows itself."""
    progress = shown.progress
    if progress is None:
        told = shown.note or "starting"
        waiting = [element("p", told, class_="soft"), *_warnings(shown), _log(shown.lines[-NEWEST:])]
        return cell(element("strong", shown.run_id or "Ratchet"), waiting, label=f"Progress of run {shown.run_id}")
    first = head(progress.use_case, progress.run_id, progress.status, brief(headline_of_row(progress)))
    body = _end(shown, progress) if shown.is_over else _middle(shown, progress)
    return cell(first, body, _warnings(shown), label=f"Progress of run {progress.run_id}")


def progress_text(shown: FollowedRun) -> str:
    """Say the same in a line, for front ends that show text."""
    progress = shown.progress
    if progress is None:
        return shown.note or "starting"
    return f"{progress.run_id}: {progress.status}, {doing_text(progress)}; {score_text(progress)}"


def _middle(shown: FollowedRun, progress: LiveProgress) -> Iterator[Markup | None]:
    counts = progress.counts
    trials = f"{counts.completed} done · {counts.running} running · {counts.failed} failed · {counts.rejected} rejected"
    listed: list[tuple[str, str | None]] = [
        ("Now", doing_text(progress)),
        ("Round", round_text(progress, shown.request)),
        ("Trials", trials),
        ("In flight", _flights(progress.in_flight)),
        ("In the search", score_text(progress)),
        ("Spend", spend_text(progress, shown.request)),
        ("Time", time_text(progress, shown.request)),
    ]
    if shown.note:
        yield element("p", shown.note, class_="notice")
    yield rows(listed)
    yield trial_chart(shown.facts) if shown.facts is not None and looks_further(shown.facts) else None
    yield _log([*shown.lines[-NEWEST:], *shown.decisions[-1:]])


def _end(shown: FollowedRun, progress: LiveProgress) -> Iterator[Markup | None]:
    spent = f"{spend_text(progress, shown.request)} · {time_text(progress, shown.request)}"
    yield element("p", f"{doing_text(progress)} · ", element("span", spent, class_="soft"))
    if len(shown.lines) > NEWEST:
        yield element("details", element("summary", f"What happened, in {len(shown.lines)} lines"), _log(shown.lines))
    else:
        yield from (element("p", line, class_="soft") for line in shown.lines)


def _warnings(shown: FollowedRun) -> Iterator[Markup]:
    yield from (element("p", warning, class_="notice") for warning in shown.warnings)


def _flights(flights: Sequence[TrialInFlight]) -> Markup | None:
    """A bar for each trial that runs."""
    if not flights:
        return element("span", "nothing", class_="soft")
    told = [(one, f"{one.candidate_id} {one.answered:,}/{one.expected:,}") for one in flights[:TRIALS_SHOWN]]
    shown = [element("span", _bar(one), text, class_="flight") for one, text in told]
    left = len(flights) - len(shown)
    return element("span", shown, element("span", f"and {left} more", class_="soft") if left else None)


def _bar(flight: TrialInFlight) -> Markup:
    share = min(flight.answered / max(flight.expected, 1), 1.0)
    return element("span", element("span", style=f"width:{share:.1%}"), class_="bar")


def _log(lines: Sequence[str]) -> Markup | None:
    return element("pre", "\n".join(lines)) if lines else None
