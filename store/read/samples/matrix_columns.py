"""The columns of a matrix: candidates of a run, with those of other runs that stand beside them, and the samples they drew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from store.connection import Connection
from store.read.samples.matrix_rows import MatrixColumn
from workflows.model.trial import SEARCHING, Purpose, Split

MOST_CANDIDATES: Final = 20
"""Beside each other."""

_BEST_FIRST: Final = """
    SELECT t.candidate_id FROM trials t JOIN runs r USING (run_id)
    WHERE t.run_id = $1 AND t.purpose = ANY($2) AND t.status <> 'running' AND t.part = ''
    ORDER BY (t.candidate_id = r.baseline_candidate_id) DESC NULLS LAST, (t.candidate_id = r.best_candidate_id) DESC NULLS LAST,
             CASE r.direction WHEN 'minimize' THEN -t.score ELSE t.score END DESC NULLS LAST, t.round, t.index
    LIMIT $3
"""
_COLUMNS: Final = """
    SELECT given.place, t.candidate_id, t.purpose, t.status, t.round, t.index, t.score AS objective_score, t.config_hash,
           t.first_replicate, t.replicates, t.split, t.run_id AS optimization_id, suite.target,
           coalesce(t.candidate_id = r.baseline_candidate_id, false) AS is_baseline,
           coalesce(t.candidate_id = r.best_candidate_id, false) AS is_best
    FROM unnest($1::text[], $3::text[]) WITH ORDINALITY AS given (run_id, candidate_id, place)
    JOIN trials t ON t.run_id = given.run_id AND t.candidate_id = given.candidate_id AND t.purpose = ANY($2) AND t.part = ''
    JOIN suites suite ON suite.run_id = t.run_id AND suite.split = t.split
    JOIN runs r ON r.run_id = t.run_id
    ORDER BY given.place
"""


class UnknownColumn(ValueError):
    """A candidate has no trial there."""

    def __init__(self, candidate_id: str, run_id: str | None = None) -> None:
        super().__init__(candidate_id)
        self.candidate_id = candidate_id
        self.run_id = run_id
        """Of a column of another run."""


@dataclass(frozen=True, slots=True)
class DrawnSuite:
    """The samples of the rows."""

    split: str
    dataset_id: str
    samples: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Candidates beside each other, each with where its answers are."""

    suite: DrawnSuite
    purposes: list[str]
    shown: list[MatrixColumn]
    config_hashes: list[str]
    first_replicates: list[int] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    @property
    def run_ids(self) -> list[str]:
        """Whose columns they are."""
        return [column.optimization_id for column in self.shown]

    @property
    def candidate_ids(self) -> list[str]:
        return [column.candidate_id for column in self.shown]


async def read_columns(
    connection: Connection,
    run_id: str,
    candidates: Sequence[str] | None,
    others: Sequence[tuple[str, str]],
    *,
    confirmation: bool,
) -> Columns | None:
    """These candidates, or the best ones, then those of other runs; None when there is no such run. Raises UnknownColumn."""
    searched = await connection.fetchval("SELECT search_split FROM runs WHERE run_id = $1", run_id)
    if searched is None:
        return None
    purposes = [Purpose.CONFIRMATION.value] if confirmation else sorted(purpose.value for purpose in SEARCHING)
    if candidates is None:
        best = await connection.fetch(_BEST_FIRST, run_id, purposes, max(1, MOST_CANDIDATES - len(others)))
        names = [row["candidate_id"] for row in best]
    else:
        names = list(dict.fromkeys(candidates))
    wanted = list(dict.fromkeys([*((run_id, name) for name in names), *others]))
    rows = await connection.fetch(_COLUMNS, [whose for whose, _ in wanted], purposes, [name for _, name in wanted])
    known = {(row["optimization_id"], row["candidate_id"]) for row in rows}
    for whose, name in wanted:
        if (whose, name) not in known:
            raise UnknownColumn(name, None if whose == run_id else whose)
    own = [row["split"] for row in rows if row["optimization_id"] == run_id]
    split = own[0] if own else Split.TEST.value if confirmation else searched
    suite = await connection.fetchrow(
        "SELECT split, dataset_id, samples FROM suites WHERE run_id = $1 AND split = $2", run_id, split
    )
    if suite is None:
        return Columns(DrawnSuite(split, "", 0), purposes, [], [])
    told = MatrixColumn.model_fields
    return Columns(
        DrawnSuite(**suite),
        purposes,
        [MatrixColumn(**{name: row[name] for name in told}) for row in rows],
        [row["config_hash"] for row in rows],
        [row["first_replicate"] for row in rows],
        [row["target"] for row in rows],
    )
