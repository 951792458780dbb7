"""One candidate: its configuration, and those it came from."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ratchet._frozen import Payload
from store.connection import Database
from store.encoding import from_json
from store.read.rows import lineage_rows
from workflows.model.spec.factors import Configuration


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
