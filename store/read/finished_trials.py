"""Finished trials in the order of their proposals: for a run that goes on, and for what optimizers compute."""

from __future__ import annotations

from typing import Any

from ratchet.optimizer import Part, TrialFacts
from store.connection import Database
from store.encoding import from_json
from workflows.model.activities.computation import StoredTrial
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import HistoryPage, TrialRow
from workflows.model.run.decisions import Decision
from workflows.model.trial import SEARCHING, Purpose, Split


class FinishedTrials:
    """Trials that are over, and the candidates that they measured."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, page: HistoryPage) -> tuple[TrialRow, ...]:
        """Finished trials in the order of their proposals, those of parts after those in full; confirmations are no part of the
        search."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT t.candidate_id, t.config_hash, c.parent_candidate_ids, t.round, t.score, t.status, t.pass_rate,
                       t.total_tokens, t.total_cost, t.first_replicate, t.stopped_early, t.judged, t.purpose, t.split,
                       t.first_sample, t.samples, t.split <> r.search_split AS apart
                FROM trials t JOIN candidates c USING (run_id, candidate_id) JOIN runs r USING (run_id)
                WHERE t.run_id = $1 AND t.purpose IN ('baseline', 'candidate', 'exploration') AND t.status <> 'running'
                ORDER BY t.purpose = 'exploration', t.round, t.index, t.candidate_id OFFSET $2 LIMIT $3
                """,
                page.run_id,
                page.after,
                page.limit,
            )
            return tuple(TrialRow(facts=_facts(row), first_replicate=row["first_replicate"]) for row in rows)

    async def candidate(self, run_id: str, candidate_id: str) -> Candidate | None:
        """One candidate with its configuration."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT c.*, o.configuration FROM candidates c JOIN overlays o USING (config_hash)"
                " WHERE c.run_id = $1 AND c.candidate_id = $2",
                run_id,
                candidate_id,
            )
            if row is None:
                return None
            return Candidate(
                candidate_id=candidate_id,
                config_hash=row["config_hash"],
                configuration=from_json(row["configuration"]),
                round=row["round"],
                index=row["index"],
                parent_candidate_ids=tuple(row["parent_candidate_ids"]),
                rationale=row["rationale"],
                first_replicate=row["first_replicate"],
                extra=from_json(row["extra"]),
            )

    async def all_of(self, run_id: str) -> list[StoredTrial]:
        """Every finished trial that is no confirmation, in the order of the proposals."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT t.candidate_id, t.config_hash, c.parent_candidate_ids, t.round, t.purpose, t.split, t.status, t.score,
                       t.sample_means, t.first_sample, t.samples, t.split <> r.search_split AS apart, c.extra
                FROM trials t JOIN candidates c USING (run_id, candidate_id) JOIN runs r USING (run_id)
                WHERE t.run_id = $1 AND t.purpose = ANY($2) AND t.status <> 'running'
                ORDER BY t.round, t.index, t.candidate_id
                """,
                run_id,
                [purpose.value for purpose in (*SEARCHING, Purpose.EXPLORATION)],
            )
            # Parts of one candidate share its configuration: it is read and decoded once.
            overlays = await connection.fetch(
                "SELECT config_hash, configuration FROM overlays WHERE config_hash = ANY($1)",
                list({row["config_hash"]: None for row in rows}),
            )
            configurations = {row["config_hash"]: from_json(row["configuration"]) for row in overlays}
            return [
                StoredTrial(
                    candidate_id=row["candidate_id"],
                    config_hash=row["config_hash"],
                    configuration=configurations[row["config_hash"]],
                    parent_candidate_ids=tuple(row["parent_candidate_ids"]),
                    round=row["round"],
                    purpose=Purpose(row["purpose"]),
                    split=Split(row["split"]),
                    status=row["status"],
                    score=row["score"],
                    sample_means=tuple(row["sample_means"] or ()),
                    part=_part(row),
                    extra=from_json(row["extra"]),
                )
                for row in rows
            ]


def _facts(row: Any) -> TrialFacts:
    """Exactly what the workflow knew of the trial when it ended: a run that goes on from here decides the same."""
    completed, part = row["status"] == "completed", _part(row)
    decision = Decision.model_validate_json(row["judged"]) if row["judged"] else Decision(candidate_id=row["candidate_id"])
    return TrialFacts(
        candidate_id=row["candidate_id"],
        config_hash=row["config_hash"],
        parent_candidate_ids=tuple(row["parent_candidate_ids"]),
        round=row["round"],
        score=row["score"] if completed else None,
        status=row["status"],
        success_rate=row["pass_rate"] if completed else None,
        tokens=row["total_tokens"] or 0,
        cost=row["total_cost"] or 0.0,
        kept=decision.kept,
        verdict=decision.verdict.value if decision.verdict else None,
        accepted=decision.accepted,
        stopped_early=row["stopped_early"],
        split=row["split"] if part else None,
        part=part,
    )


def _part(row: Any) -> Part | None:
    """Which samples a trial was measured on, when these were not all."""
    if row["purpose"] != Purpose.EXPLORATION:
        return None
    return Part(split="train" if row["apart"] else "search", first=row["first_sample"], count=row["samples"])
