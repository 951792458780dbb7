"""Answers that are paid for and wait for their score: stored as they come, taken up by whoever scores them."""

from __future__ import annotations

from collections.abc import Sequence

from store.connection import Connection, Database
from store.encoding import from_json, optional_json
from workflows.model.run.amounts import Amount
from workflows.model.suite import EvaluationSuite, KeptAnswer, Outcome
from workflows.model.trial import ShardInput, TrialInput


class UnscoredAnswers:
    """Answers that wait for their score. They come and go with the outcomes, in the transactions of `Outcomes`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def paid_for(self, trial: TrialInput) -> Amount:
        """What a trial paid for answers that nobody has scored so far."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT count(*), coalesce(sum(tokens), 0)::bigint, coalesce(sum(cost), 0) FROM unscored_answers"
                " WHERE run_id = $1 AND config_hash = $2 AND trial_id = $3 AND reused_from IS NULL",
                trial.run_id,
                trial.candidate.config_hash,
                trial.trial_id,
            )
            assert row is not None
            return Amount(*row)


async def keep(connection: Connection, shard: ShardInput, evaluator: str, answers: Sequence[KeptAnswer]) -> None:
    """Keep answers until they are scored. The first answer to a pair stays; a run that was deleted meanwhile keeps none."""
    await connection.execute(
        """
        INSERT INTO unscored_answers (config_hash, evaluator, run_id, trial_id, item_hash, replicate, output, tokens, cost,
                                  latency_ms, ttft_ms, trace)
        SELECT $1, $2, $3, $4, * FROM unnest($5::text[], $6::int[], $7::json[], $8::bigint[], $9::float8[], $10::float8[],
                                             $11::float8[], $12::json[])
        WHERE EXISTS (SELECT FROM runs WHERE run_id = $3)
        ON CONFLICT DO NOTHING
        """,
        shard.config_hash,
        evaluator,
        shard.run_id,
        shard.trial_id,
        [answer.item_hash for answer in answers],
        [answer.replicate for answer in answers],
        [optional_json(answer.value) for answer in answers],
        [answer.tokens for answer in answers],
        [answer.cost for answer in answers],
        [answer.latency_ms for answer in answers],
        [answer.ttft_ms for answer in answers],
        [optional_json(answer.trace) for answer in answers],
    )


async def take_scored(connection: Connection, shard: ShardInput, evaluator: str, outcomes: Sequence[Outcome]) -> None:
    """Outcomes of these are stored: who asked for the answer stays known, and who scored it if that is somebody else."""
    await connection.execute(
        """
        WITH taken AS (
            DELETE FROM unscored_answers k USING unnest($5::text[], $6::int[]) AS pair (item_hash, replicate)
            WHERE k.run_id = $3 AND k.config_hash = $1 AND k.evaluator = $2
              AND k.item_hash = pair.item_hash AND k.replicate = pair.replicate
            RETURNING k.item_hash, k.replicate, k.trial_id, k.reused_from
        )
        UPDATE outcomes o SET trial_id = taken.trial_id, reused_from = taken.reused_from, scored_by = $4
        FROM taken
        WHERE o.config_hash = $1 AND o.evaluator = $2 AND o.run_id = $3
          AND o.item_hash = taken.item_hash AND o.replicate = taken.replicate
          AND (taken.trial_id <> $4 OR taken.reused_from IS NOT NULL)
        """,
        shard.config_hash,
        evaluator,
        shard.run_id,
        shard.trial_id,
        [outcome.item_hash for outcome in outcomes],
        [outcome.replicate for outcome in outcomes],
    )


async def load_unscored(
    connection: Connection, shard: ShardInput, evaluator: str, item_hashes: Sequence[str]
) -> dict[tuple[str, int], KeptAnswer]:
    """What waits for its score, by sample and replicate."""
    rows = await connection.fetch(
        "SELECT item_hash, replicate, output, tokens, cost, latency_ms, ttft_ms, trace FROM unscored_answers"
        " WHERE run_id = $1 AND config_hash = $2 AND evaluator = $3 AND item_hash = ANY($4)",
        shard.run_id,
        shard.config_hash,
        evaluator,
        item_hashes,
    )
    return {
        (item_hash, replicate): KeptAnswer(
            item_hash, replicate, from_json(output), tokens, cost, latency_ms, ttft_ms, from_json(trace)
        )
        for item_hash, replicate, output, tokens, cost, latency_ms, ttft_ms, trace in rows
    }


async def copy_unscored_from_other_runs(connection: Connection, shard: ShardInput, suite: EvaluationSuite) -> None:
    """Take over what other runs have paid for and never scored, where no scored answer was found."""
    await connection.execute(
        """
        INSERT INTO unscored_answers (run_id, config_hash, evaluator, item_hash, replicate, trial_id, output, tokens, cost,
                                  latency_ms, ttft_ms, trace, reused_from)
        SELECT DISTINCT ON (k.item_hash, k.replicate) $1, $2, $3, k.item_hash, k.replicate, $4, k.output, k.tokens, k.cost,
               k.latency_ms, k.ttft_ms, k.trace, coalesce(k.reused_from, k.run_id)
        FROM unscored_answers k
        WHERE k.config_hash = $2 AND k.evaluator = $3
          AND k.run_id = ANY(ARRAY(SELECT DISTINCT run_id FROM candidates WHERE config_hash = $2 AND run_id <> $1))
          AND ($5::text IS NULL OR k.run_id = $5)
          AND NOT EXISTS (
              SELECT FROM outcomes o WHERE o.config_hash = $2 AND o.evaluator = $3 AND o.run_id = $1
                AND o.item_hash = k.item_hash AND o.replicate = k.replicate)
        ORDER BY k.item_hash, k.replicate, k.created_at, k.run_id
        ON CONFLICT DO NOTHING
        """,
        shard.run_id,
        shard.config_hash,
        suite.evaluator,
        shard.trial_id,
        suite.retry_of,
    )
