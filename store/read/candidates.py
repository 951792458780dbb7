"""One candidate: its configuration, and those it came from."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ratchet._frozen import Payload
from store.connection import Database
from store.encoding import from_json
from store.read.rows import lineage_rows
from workflows.model.activities.search_plans import Importances
from workflows.model.spec.factors import Configuration

MOST_TRIED = 500
"""Candidates whose values are told at once."""


class Ancestor(Payload):
    """A candidate that another one is compared with."""

    candidate_id: str | None
    """None for a baseline whose trial has not begun."""
    config_hash: str
    score: float | None
    configuration: Configuration


class StoredCandidate(Payload):
    """A candidate with what it differs from."""

    candidate_id: str
    config_hash: str
    round: int
    index: int
    rationale: str | None
    extra: dict[str, Any] = Field(default_factory=dict)
    configuration: Configuration
    baseline: Ancestor
    parents: tuple[Ancestor, ...]
    children: tuple[str, ...]


class TriedValues(Payload):
    """What one candidate tried of the structured factors."""

    candidate_id: str
    round: int
    score: float | None
    values: tuple[Any, ...]
    """In the order of the factors."""


class TriedFactors(Payload):
    """The structured factors of a run, and what its candidates tried of them."""

    factors: tuple[str, ...]
    importances: Importances | None
    """Which of them mattered, once the run is over and that was worked out."""
    candidates: tuple[TriedValues, ...]
    """Those that were measured; of more than are told here, those with the best scores."""


class CandidateReader:
    """The candidates of runs, and how they descend from each other."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, candidate_id: str) -> StoredCandidate | None:
        """A candidate with the configurations of its baseline and its parents, and the ids of its children."""
        async with self._database.snapshot() as connection:
            row = await connection.fetchrow(
                """
                SELECT c.candidate_id, c.config_hash, c.round, c.index, c.rationale, c.extra, o.configuration,
                       c.parent_candidate_ids, r.baseline_config_hash, r.baseline_candidate_id, r.baseline_score,
                       base.configuration AS baseline_configuration,
                       array(SELECT child.candidate_id FROM candidates child WHERE child.run_id = c.run_id
                             AND child.parent_candidate_ids @> ARRAY[c.candidate_id]
                             ORDER BY child.round, child.index) AS children
                FROM candidates c
                JOIN runs r USING (run_id)
                JOIN overlays o ON o.config_hash = c.config_hash
                JOIN overlays base ON base.config_hash = r.baseline_config_hash
                WHERE c.run_id = $1 AND c.candidate_id = $2
                """,
                run_id,
                candidate_id,
            )
            if row is None:
                return None
            named = list(row["parent_candidate_ids"])
            parents = await connection.fetch(
                """
                SELECT c.candidate_id, c.config_hash, t.score, o.configuration
                FROM candidates c
                JOIN overlays o USING (config_hash)
                LEFT JOIN trials t ON t.run_id = c.run_id AND t.candidate_id = c.candidate_id
                    AND t.purpose IN ('baseline', 'candidate')
                WHERE c.run_id = $1 AND c.candidate_id = ANY($2)
                ORDER BY array_position($2::text[], c.candidate_id)
                """,
                run_id,
                named,
            )
            return StoredCandidate(
                candidate_id=row["candidate_id"],
                config_hash=row["config_hash"],
                round=row["round"],
                index=row["index"],
                rationale=row["rationale"],
                extra=from_json(row["extra"]),
                configuration=from_json(row["configuration"]),
                baseline=Ancestor(
                    candidate_id=row["baseline_candidate_id"],
                    config_hash=row["baseline_config_hash"],
                    score=row["baseline_score"],
                    configuration=from_json(row["baseline_configuration"]),
                ),
                parents=tuple(
                    Ancestor(**{**dict(parent), "configuration": from_json(parent["configuration"])}) for parent in parents
                ),
                children=tuple(row["children"]),
            )

    async def tried(self, run_id: str, most: int = MOST_TRIED) -> TriedFactors | None:
        """The values of structured factors by candidate, the best scores first; None when there is no such run."""
        async with self._database.snapshot() as connection:
            run = await connection.fetchrow("SELECT spec, result, direction FROM runs WHERE run_id = $1", run_id)
            if run is None:
                return None
            names = [
                name
                for name, factor in from_json(run["spec"]).get("configuration", {}).items()
                if isinstance(factor, dict) and factor.get("change") == "structured"
            ]
            result = None if run["result"] is None else from_json(run["result"])
            found = (result or {}).get("importances")
            importances = None if found is None else Importances.model_validate(found)
            rows = await connection.fetch(
                """
                SELECT c.candidate_id, c.round, t.score, o.configuration
                FROM trials t JOIN candidates c USING (run_id, candidate_id) JOIN overlays o ON o.config_hash = c.config_hash
                WHERE t.run_id = $1 AND t.purpose IN ('baseline', 'candidate') AND t.part = '' AND t.score IS NOT NULL
                ORDER BY CASE $2 WHEN 'minimize' THEN t.score ELSE -t.score END, c.round, c.index LIMIT $3
                """,
                run_id,
                run["direction"],
                most if names else 0,
            )
        tried = []
        for row in rows:
            configuration = from_json(row["configuration"])
            told = {name: row[name] for name in ("candidate_id", "round", "score")}
            tried.append(TriedValues(**told, values=tuple(configuration.get(name) for name in names)))
        return TriedFactors(factors=tuple(names), importances=importances, candidates=tuple(tried))

    async def graph(self, run_id: str) -> lineage_rows.Graph | None:
        """The true lineage: every candidate, and an edge from each of its parents."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                """
                SELECT c.candidate_id, c.config_hash, c.round, c.index, t.status, t.score, c.rationale, c.parent_candidate_ids,
                       (SELECT count(*) FROM trials part WHERE part.run_id = c.run_id AND part.candidate_id = c.candidate_id
                                                           AND part.purpose = 'exploration') AS parts,
                       coalesce(c.candidate_id = r.best_candidate_id, false) AS is_best,
                       coalesce(t.purpose = 'baseline', false) AS is_baseline
                FROM runs r
                JOIN candidates c USING (run_id)
                LEFT JOIN trials t ON t.run_id = c.run_id AND t.candidate_id = c.candidate_id
                    AND t.purpose IN ('baseline', 'candidate')
                WHERE r.run_id = $1 ORDER BY c.round, c.index, c.candidate_id
                """,
                run_id,
            )
            if not found and not await connection.fetchval("SELECT true FROM runs WHERE run_id = $1", run_id):
                return None
        edges = [
            lineage_rows.Edge(parent=parent, child=row["candidate_id"])
            for row in found
            for parent in row["parent_candidate_ids"]
        ]
        return lineage_rows.Graph(nodes=tuple(lineage_rows.Node(**row) for row in found), edges=tuple(edges))
