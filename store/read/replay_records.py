"""What replay reads of the store: what a run's trials were measured on, and the answers that each was concluded from."""

from __future__ import annotations

from datetime import datetime

from store.connection import Connection, Database
from store.encoding import decoded
from store.read.rows import report_rows, round_rows
from store.read.samples.measured_samples import measured, measured_in_batches
from store.write.suites import Suites
from workflows.model.run.decisions import Reference
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.scoring.tally import Tally


async def splits(connection: Connection, run_id: str) -> tuple[report_rows.DrawnSplit, ...]:
    """Every split of a run."""
    found = await connection.fetch(
        """
        SELECT suite.split, suite.samples, coalesce(suite.body -> 'same_as', '{}') AS same_as,
               suite.body -> 'left_out' AS left_out,
               CASE WHEN min(s.weight) <> max(s.weight) THEN array_agg(s.weight ORDER BY drawn.position) END AS weights
        FROM suites suite
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        WHERE suite.run_id = $1 GROUP BY suite.run_id, suite.split ORDER BY suite.split
        """,
        run_id,
    )
    return tuple(report_rows.DrawnSplit(**decoded(row, "same_as", "left_out")) for row in found)


async def proposal_costs(connection: Connection, run_id: str) -> tuple[round_rows.ProposalCost, ...]:
    """What proposals took, by round."""
    found = await connection.fetch(
        "SELECT round, sum(tokens)::bigint AS tokens, sum(cost) AS cost FROM model_answers WHERE run_id = $1"
        " GROUP BY round ORDER BY round",
        run_id,
    )
    return tuple(round_rows.ProposalCost(**row) for row in found)


class RecordedOutcomes:
    """The outcomes of finished trials."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.suites = Suites(database)

    async def tally(self, tally: Tally, trial: Reference, until: datetime | None) -> None:
        """Add up what the answers to a trial were worth, without those that came after it was concluded."""
        key = (tally.suite, trial.config_hash, trial.first_replicate, trial.replicates)
        async with self._database.snapshot() as connection:
            async for batch in measured_in_batches(connection, *key, until=until):
                tally.add(batch)

    async def measured(self, suite: EvaluationSuite, trial: Reference, until: datetime | None) -> list[MeasuredSample]:
        """The same answers one by one, for what depends on single ones."""
        async with self._database.connection() as connection:
            return await measured(connection, suite, trial.config_hash, trial.first_replicate, trial.replicates, until=until)
