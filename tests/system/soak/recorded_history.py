"""What a soak leaves to be judged: rows of the store, calls in the targets' own log, faults, executions in Temporal.

Plain rows and plain functions: nothing here, nor in the `…_checks` beside it, knows Ratchet's code, so they share no mistake.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]
CallKey = tuple[str, str, str, int]
"""Run, configuration, sample, replicate. Endpoints see neither hash nor replicate: there it is the factor `x`, and -1."""


@dataclass(frozen=True)
class Violation:
    """A promise that was broken."""

    check: str
    run_id: str
    what: str
    at: float | None = None
    """Seconds since the soak began, where that is known."""


@dataclass
class Attempt:
    """One call of a target, from its own log."""

    key: CallKey
    begun: float
    outcome: str = "open"
    """`answered`, `refused` (429), `failed` (500), `lied` (a page in place of JSON), `left` (the caller hung up), or open."""
    over: float | None = None

    @property
    def can_be_paid(self) -> bool:
        return self.outcome not in {"refused", "failed", "lied"}


@dataclass
class History:
    """Everything the checks look at."""

    tables: dict[str, list[Row]]
    calls: list[Row]
    faults: list[Row]
    executions: list[Row]
    series: list[Row] = field(default_factory=list)
    left_over: Row = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table; none where the record is older than the table."""
        return self.tables.get(table, [])

    def of_run(self, table: str) -> dict[str, list[Row]]:
        """The rows of a table by their run."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.tables[table]:
            found[row["run_id"]].append(row)
        return found

    def attempts(self) -> dict[CallKey, list[Attempt]]:
        """All calls by what they asked, in the order in which they began."""
        by_call: dict[str, Attempt] = {}
        for line in sorted(self.calls, key=lambda one: float(one["at"])):
            if line["what"] == "begun":
                by_call[line["call"]] = Attempt(call_key(line), line["at"])
            elif line["call"] in by_call:
                by_call[line["call"]].outcome, by_call[line["call"]].over = line["what"], line["at"]
        found: dict[CallKey, list[Attempt]] = defaultdict(list)
        for attempt in by_call.values():
            found[attempt.key].append(attempt)
        return found

    def paid_answers(self) -> dict[CallKey, Row]:
        """The answers that a run paid for itself, by what was asked: both as a plug-in and as an endpoint sees it."""
        dataset = {run["run_id"]: run["dataset_id"] for run in self.tables["runs"]}
        items = {(row["dataset_id"], row["item_hash"]): row["item_id"] for row in self.tables["samples"]}
        x = {row["config_hash"]: str(row["configuration"].get("x")) for row in self.tables["overlays"]}
        found: dict[CallKey, Row] = {}
        for row in self.tables["answers"]:
            run, config = row["run_id"], row["config_hash"]
            if run not in dataset or row["reused_from"] is not None:
                continue
            item = items[dataset[run], row["item_hash"]]
            found[run, config, item, row["replicate"]] = row
            found[run, x.get(config, ""), item, -1] = row
        return found

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self), indent=None, default=str, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> History:
        return cls(**json.loads(path.read_text()))


Check = Callable[[History], Iterator[Violation]]


def call_key(line: Row) -> CallKey:
    if "x" in line:
        return line["run"], str(line["x"]), line["item"], -1
    return line["run"], line["config"], line["item"], line["replicate"]


def same(one: float | None, other: float | None, tolerance: float = 1e-9) -> bool:
    """Whether two figures are the same but for the order in which they were added up."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))
