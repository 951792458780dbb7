"""Answers that are stored and wait for their score, taken up by whoever scores them."""

from __future__ import annotations

from collections.abc import Sequence

from store.connection import Connection, Database
from store.encoding import from_json
from workflows.model.run.amounts import Amount
from workflows.model.suite import EvaluationSuite, UnscoredAnswer
from workflows.model.trial import ShardInput, TrialInput

_WAITING = """
    answers a WHERE a.config_hash = $1 AND a.target = $2 AND a.run_id = $4
    AND NOT EXISTS (SELECT FROM scores s WHERE s.answer_id = a.answer_id AND s.scorer = $3)
"""


class UnscoredAnswers:
    """Answers that wait for their score."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def paid_for(self, trial: TrialInput, suite: EvaluationSuite) -> Amount:
        """What a trial paid for answers that nobody has scored so far."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT count(*), coalesce(sum(a.tokens), 0)::bigint, coalesce(sum(a.cost), 0)"  # noqa: S608
                f" FROM {_WAITING} AND a.trial_id = $5 AND a.reused_from IS NULL",
                trial.candidate.config_hash,
                suite.target_fingerprint,
                suite.scorer_fingerprint,
                trial.run_id,
                trial.trial_id,
            )
            assert row is not None
            return Amount(*row)


async def load_unscored(
    connection: Connection, shard: ShardInput, suite: EvaluationSuite, item_hashes: Sequence[str]
) -> dict[tuple[str, int], UnscoredAnswer]:
    """What waits for its score, by sample and replicate."""
    rows = await connection.fetch(
        "SELECT a.answer_id, a.item_hash, a.replicate, a.output, a.tokens, a.cost, a.latency_ms, a.ttft_ms, a.trace,"  # noqa: S608
        f" a.error, a.error_class, a.printed, a.cached_tokens FROM {_WAITING} AND a.item_hash = ANY($5)",
        shard.config_hash,
        suite.target_fingerprint,
        suite.scorer_fingerprint,
        shard.run_id,
        item_hashes,
    )
    return {
        (row["item_hash"], row["replicate"]): UnscoredAnswer(
            row["answer_id"],
            row["item_hash"],
            row["replicate"],
            from_json(row["output"]),
            row["tokens"],
            row["cost"],
            row["latency_ms"],
            row["ttft_ms"],
            from_json(row["trace"]),
            row["error"],
            row["error_class"],
            row["printed"],
            cached_tokens=row["cached_tokens"] or 0,
        )
        for row in rows
    }
