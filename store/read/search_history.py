"""What a search knows: its finished trials, all of them for a run that goes on, or a few for what optimizers compute.

Those few cost the same in the end as in the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ratchet.optimizer import Part, TrialFacts
from store.connection import Connection, Database
from store.encoding import from_json
from workflows.model.activities.computation import Bounded, StoredTrial
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import HistoryPage, TrialRow
from workflows.model.run.decisions import Decision
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import SEARCHING, Purpose, Split

MOST_STEPS = 100
LONGEST_STEP = 1_000
"""Characters of why a candidate was proposed."""

_SEARCHING = [purpose.value for purpose in SEARCHING]


class Searched(NamedTuple):
    """Some trials of a run, and the hashes of all configurations that it tried."""

    trials: list[StoredTrial]
    config_hashes: list[str]


class SearchHistory:
    """The trials of a search that are over, of this run and of earlier ones."""

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

    async def facts(self, run_id: str) -> list[TrialFacts]:
        """Every finished trial, as an optimizer knows it, in that order."""
        found: list[TrialFacts] = []
        while True:
            page = HistoryPage(run_id=run_id, after=len(found))
            rows = await self.page(page)
            found += [row.facts for row in rows]
            if len(rows) < page.limit:
                return found

    async def steps_to(self, run_id: str, candidate_id: str) -> list[str]:
        """Why each candidate was proposed that leads from the baseline to this one, in the order of the steps."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                WITH RECURSIVE way AS (
                    SELECT rationale, parent_candidate_ids, 1 AS steps FROM candidates WHERE run_id = $1 AND candidate_id = $2
                    UNION ALL
                    SELECT c.rationale, c.parent_candidate_ids, way.steps + 1
                    FROM way JOIN candidates c ON c.run_id = $1 AND c.candidate_id = way.parent_candidate_ids[1]
                    WHERE way.steps < $3
                )
                SELECT rationale FROM way WHERE rationale <> '' ORDER BY steps DESC
                """,
                run_id,
                candidate_id,
                MOST_STEPS,
            )
        return [row["rationale"][:LONGEST_STEP] for row in rows]

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

    async def trials(self, run_id: str) -> list[StoredTrial]:
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

    async def searched(self, run_id: str, bounded: Bounded) -> Searched:
        """The baseline, the best and the newest trials in the order of the proposals, without their means by sample.

        A race that was stopped has seen some samples only, which may be the easy ones: its score is that of what it was
        compared with, and how far it was ahead on the samples that both answered.
        """
        async with self._database.connection() as connection:
            hashes = await connection.fetch(
                "SELECT DISTINCT config_hash FROM trials WHERE run_id = $1 AND purpose = ANY($2)", run_id, _SEARCHING
            )
            return Searched(await _trials(connection, run_id, bounded), [row["config_hash"] for row in hashes])

    async def of_earlier_runs(self, run_ids: Sequence[str], bounded: Bounded) -> list[StoredTrial]:
        """Their trials, run by run; what was deleted meanwhile is missing."""
        async with self._database.connection() as connection:
            return [trial for run_id in run_ids for trial in await _trials(connection, run_id, bounded)]

    async def not_comparable(
        self, run_ids: Sequence[str], suite: EvaluationSuite, item_hashes: Sequence[str]
    ) -> dict[str, str]:
        """The runs whose scores say nothing about this suite, and why. In which order its samples are drawn does not matter."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT s.run_id, s.body, ARRAY(
                    SELECT item_hash FROM suite_samples d WHERE d.run_id = s.run_id AND d.split = s.split ORDER BY item_hash
                ) AS item_hashes
                FROM suites s JOIN runs r ON r.run_id = s.run_id AND r.search_split = s.split WHERE s.run_id = ANY($1)
                """,
                list(run_ids),
            )
            measured = {row["run_id"]: (EvaluationSuite.model_validate_json(row["body"]), row["item_hashes"]) for row in rows}
            problems: dict[str, str] = {}
            for run_id in run_ids:
                if run_id not in measured:
                    problems[run_id] = "is no run in this store; `ratchet list` shows those that are"
                    continue
                earlier, samples = measured[run_id]
                if sorted(samples) != sorted(item_hashes):
                    problems[run_id] = "measured other samples (with splits, another seed draws others); leave it out"
                elif (earlier.scorers, earlier.objective, earlier.metric) != (suite.scorers, suite.objective, suite.metric):
                    problems[run_id] = "has other scorers or another objective; leave it out"
            return problems


async def _trials(connection: Connection, run_id: str, bounded: Bounded) -> list[StoredTrial]:
    rows = await connection.fetch(
        """
        WITH scored AS (
            SELECT t.candidate_id, t.config_hash, t.round, t.index, t.purpose, t.split, t.status, r.direction,
                   t.score + coalesce((
                       SELECT whole.score - (found ->> 'reference_mean')::float8
                       FROM jsonb_array_elements(t.evidence) WITH ORDINALITY compared(found, place)
                       JOIN trials whole ON whole.run_id = t.run_id AND whole.candidate_id = found ->> 'reference'
                       WHERE t.stopped_early IS NOT NULL AND whole.purpose = ANY($2) AND whole.stopped_early IS NULL
                       ORDER BY place DESC LIMIT 1
                   ), 0) AS score
            FROM trials t JOIN runs r USING (run_id)
            WHERE t.run_id = $1 AND t.purpose = ANY($2) AND t.status <> 'running'
        ), ranked AS (
            SELECT *, row_number() OVER (ORDER BY round DESC, index DESC, candidate_id DESC) AS newest,
                   row_number() OVER (
                       ORDER BY CASE WHEN direction = 'maximize' THEN -score ELSE score END NULLS LAST, round, index
                   ) AS best
            FROM scored
        )
        SELECT k.*, o.configuration FROM ranked k JOIN overlays o USING (config_hash)
        WHERE k.purpose = 'baseline' OR k.newest <= $3 OR k.best <= $4 OR k.candidate_id = ANY($5)
        ORDER BY k.round, k.index, k.candidate_id
        """,
        run_id,
        _SEARCHING,
        bounded.newest,
        bounded.best,
        list(bounded.candidates),
    )
    return [
        StoredTrial(
            candidate_id=row["candidate_id"],
            config_hash=row["config_hash"],
            configuration=from_json(row["configuration"]),
            parent_candidate_ids=(),
            round=row["round"],
            purpose=Purpose(row["purpose"]),
            split=Split(row["split"]),
            status=row["status"],
            score=row["score"],
            sample_means=(),
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
