"""What searches of structured values and of examples read: so few trials of a run, and of earlier ones, that it costs the same
in the end as in the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.connection import Connection, Database
from store.encoding import from_json
from workflows.model.activities.computation import Bounded, StoredTrial
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import SEARCHING, Purpose, Split

_SEARCHING = [purpose.value for purpose in SEARCHING]


class Searched(NamedTuple):
    """Some trials of a run, and the hashes of all configurations that it tried."""

    trials: list[StoredTrial]
    config_hashes: list[str]


class SearchHistory:
    """A few trials of a search, of this run and of earlier ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
