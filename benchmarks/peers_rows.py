"""The rows of the comparison: which engines there are, what was measured of each, and how it is shown and judged."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.figures import Figure
from benchmarks.peers_environments import DSPY, GEPA, OPIK, Peer


@dataclass(frozen=True)
class Engine:
    """One row."""

    name: str
    variant: str
    peer: Peer | None
    persists: str
    resumes: bool = True
    """Whether killing it and starting it again is worth a row's own measurement."""
    searches: bool = True
    """Whether it has candidates of its own, or evaluates what it is given."""
    cached: bool = False
    """Whether its own count holds calls that never reached the target."""
    slow: bool = False
    """One call after another: measured beside the killed runs, which it hardly disturbs, on fewer calls."""
    costly: bool = False
    """Takes so long per candidate that fewer of them tell."""
    slower: bool = True
    """Whether ours is claimed to be done sooner."""


ENGINES = (
    Engine("ratchet, 1 candidate a round", "one", None, "every answer, decision and spend; goes on by itself, exactly"),
    Engine("ratchet, 4 candidates a round", "four", None, "the same"),
    Engine("gepa, its default adapter", "default", GEPA, "as below", resumes=False, slow=True),
    Engine("gepa, a threaded adapter", "threads", GEPA, "a pickle per iteration; no random state; validates the seed again"),
    Engine("gepa, threads, 2 x 3 proposals", "parallel", GEPA, "the same", slower=False),
    Engine("dspy.Evaluate", "evaluate", DSPY, "nothing", searches=False, slower=False),
    Engine("dspy.GEPA", "gepa", DSPY, "gepa's pickle, by log_dir"),
    Engine("dspy.GEPA, model answers cached", "gepa_cached", DSPY, "the same, and answers by prompt on disk", cached=True),
    Engine("opik MetaPromptOptimizer", "meta_prompt", OPIK, "traces on its server; starts from the beginning", costly=True),
    Engine("opik GepaOptimizer", "gepa", OPIK, "traces, and gepa's pickle by run_dir", costly=True),
)


@dataclass
class Row:
    """What was measured of one engine."""

    engine: Engine
    wall: float | None = None
    per_candidate: float | None = None
    made: int | None = None
    undisturbed: Path | None = None
    declared: int | None = None
    killed: tuple[int, ...] = ()
    """Calls of each killed run and its continuation."""
    same: bool | None = None
    uncounted: int | None = None
    beyond_in_flight: int | None = None
    idle: float | None = None
    problem: str | None = None

    @property
    def repeated(self) -> float | None:
        """Calls beyond the undisturbed run's, for a kill."""
        return statistics.mean(self.killed) - self.made if self.killed and self.made is not None else None

    @property
    def wasted(self) -> float | None:
        """What a kill costs. A run that goes on differently ends elsewhere: what it did not count is the better measure."""
        return self.uncounted if self.uncounted is not None else self.repeated

    @property
    def overshoot(self) -> int | None:
        return None if self.made is None or self.declared is None else max(0, self.made - self.declared)


def table(title: str, rows: list[Row]) -> Table:
    shown = Table(title=title, title_justify="left")
    for heading in ("engine", "version", "wall / ideal", "ms per candidate"):
        shown.add_column(heading, justify="left" if heading in {"engine", "version"} else "right")
    for heading in ("calls of budget", "after kill -9", "same candidates", "what it keeps, and how it goes on"):
        shown.add_column(heading)
    for row in rows:
        shown.add_row(*cells(row))
    return shown


def cells(row: Row) -> list[str]:
    """What could be measured; where something could not be, the reason is the last cell."""
    per_candidate = "as below" if row.engine.slow else "-"
    return [
        row.engine.name,
        row.engine.peer.version if row.engine.peer else "this",
        "-" if row.wall is None else f"{row.wall:.2f}",
        per_candidate if row.per_candidate is None else f"{row.per_candidate:.1f}",
        "-" if row.made is None else budget_in_words(row),
        killed_in_words(row),
        {None: "-", True: "yes", False: "no"}[row.same],
        row.problem or row.engine.persists,
    ]


def budget_in_words(row: Row) -> str:
    if row.declared is None:
        return f"{row.made}, none to declare"
    return f"{row.made} of {row.declared}" + (f" (+{row.overshoot})" if row.overshoot else "")


def killed_in_words(row: Row) -> str:
    if row.repeated is None:
        return "-" if row.engine.resumes else "as below"
    counts = ", ".join(str(count) for count in row.killed)
    words = f"{counts} / {row.made} ({row.repeated:+.0f})"
    return words if row.uncounted is None else f"{words}, {row.uncounted} uncounted"


def figures(rows: list[Row]) -> list[Figure]:
    """Targets for ours, and ratios where ours is claimed to be better: below 1 it is."""
    ours, four = rows[0], rows[1]
    assert ours.wall is not None
    assert four.wall is not None
    found = [
        Figure("calls repeated beyond those in flight", float(max(row.beyond_in_flight or 0 for row in (ours, four))), 0.0),
        Figure("calls beyond the budget", float(max(row.overshoot or 0 for row in (ours, four))), 0.0),
        Figure("killed runs that tried other candidates", float(sum(not row.same for row in (ours, four))), 0.0),
    ]
    for row in rows[2:]:
        if row.wall is not None:
            found += ratios(four, ours, row)
    return found


def ratios(four: Row, one: Row, peer: Row) -> list[Figure]:
    name = peer.engine.name
    assert four.wall is not None
    assert peer.wall is not None
    found = []
    if peer.engine.slower:
        found.append(Figure(f"wall, 4 a round, over {name}", four.wall / peer.wall, 1.0))
    if peer.engine.costly and peer.per_candidate and four.per_candidate:
        found.append(Figure(f"ms per candidate, 4 a round, over {name}", four.per_candidate / peer.per_candidate, 1.0))
    if peer.wasted is not None and peer.wasted > 0 and one.wasted is not None:
        found.append(Figure(f"calls lost by a kill, over {name}", one.wasted / peer.wasted, 1.0))
    return found


def as_facts(row: Row) -> Mapping[str, Any]:
    return {
        "engine": row.engine.name,
        "wall_over_ideal": row.wall,
        "ms_per_candidate": row.per_candidate,
        "calls": row.made,
        "budget": row.declared,
        "calls_of_killed_runs": row.killed,
        "uncounted": row.uncounted,
        "same_candidates": row.same,
        "problem": row.problem,
    }
