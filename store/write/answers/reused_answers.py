"""Answers that other runs have paid for, copied with their scores where the same scorers gave these."""

from __future__ import annotations

from store.connection import Connection
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import ShardInput


async def copy_from_other_runs(connection: Connection, shard: ShardInput, suite: EvaluationSuite, positions: range) -> None:
    """Take over what there is for some samples: of several answers one that is scored, then the oldest.

    A retry, and a run that scores another one's answers anew, take from that one only. Failed answers are taken by the latter
    alone, whatever its target is by now: it measures what was answered. Scores that a scorer failed to give are never taken,
    nor those without the metric of this run. Answers whose texts were removed are as good as gone: nobody can score them.
    """
    await connection.execute(
        """
        WITH source AS MATERIALIZED (
            SELECT found.*, block.first_id + row_number() OVER () AS copy_id
            FROM (SELECT nextval('answer_ids') AS first_id) block, LATERAL (
                SELECT wanted.replicate AS wanted_replicate, o.*
                FROM suite_samples drawn
                CROSS JOIN generate_series($8::int, $8::int + $9::int - 1) AS wanted (replicate)
                CROSS JOIN LATERAL (
                    SELECT other.*, s.scorer, s.passed, s.scores, s.details, s.feedback, s.tokens AS scoring_tokens,
                           s.cost AS scoring_cost, s.printed AS scorers_printed, s.cached_tokens AS scoring_cached_tokens
                    FROM answers other
                    LEFT JOIN LATERAL (
                        SELECT * FROM scores
                        WHERE scores.answer_id = other.answer_id AND scores.scorer = $5 AND scores.fault IS NULL
                          AND (scores.scores ? $13 OR other.status = 'failed')
                        OFFSET 0
                    ) s ON true
                    WHERE other.config_hash = $3 AND other.item_hash = drawn.item_hash AND other.replicate = wanted.replicate
                      AND other.target = CASE WHEN $12::text IS NULL THEN $4
                                         ELSE (SELECT target FROM suites WHERE run_id = $12 AND split = $2) END
                      AND other.run_id = ANY(ARRAY(
                          SELECT DISTINCT run_id FROM candidates
                          WHERE config_hash = $3 AND run_id <> $1 AND run_id = coalesce($12, $11, run_id)
                                AND team_of_run(run_id) = team_of_run($1)))
                      AND (other.status = 'answered' OR $12 IS NOT NULL) AND other.texts_removed IS NULL
                    ORDER BY s.scorer IS NULL, other.created_at, other.run_id LIMIT 1
                ) o
                WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $6 AND drawn.position < $7
                  AND NOT EXISTS (
                      SELECT FROM answers mine
                      WHERE mine.config_hash = $3 AND mine.target = $4 AND mine.run_id = $1
                        AND mine.item_hash = drawn.item_hash AND mine.replicate = wanted.replicate)
            ) found
            WHERE EXISTS (SELECT FROM runs WHERE run_id = $1 FOR KEY SHARE)
        ), copied AS (
            INSERT INTO answers (answer_id, tokens, cost, latency_ms, ttft_ms, replicate, config_hash, target, run_id,
                                 item_hash, trial_id, reused_from, status, output, error, error_class, trace, printed,
                                 echoed, cached_tokens)
            SELECT copy_id, tokens, cost, latency_ms, ttft_ms, replicate, $3, $4, $1, item_hash,
                   $10, coalesce(reused_from, run_id), status, output, error, error_class, trace, printed,
                   echoed, cached_tokens
            FROM source
            ON CONFLICT DO NOTHING RETURNING answer_id
        )
        INSERT INTO scores (answer_id, tokens, cost, passed, scorer, scores, details, feedback, printed, cached_tokens)
        SELECT copy_id, scoring_tokens, scoring_cost, coalesce((details -> $13 ->> 'passed')::bool, passed), $5, scores,
               details, feedback, scorers_printed, scoring_cached_tokens
        FROM source WHERE scorer IS NOT NULL AND copy_id IN (SELECT answer_id FROM copied)
        """,
        shard.run_id,
        shard.split.value,
        shard.config_hash,
        suite.target_fingerprint,
        suite.scorer_fingerprint,
        positions.start,
        positions.stop,
        shard.first_replicate,
        shard.replicates,
        shard.trial_id,
        suite.retry_of,
        suite.rescore_of,
        suite.metric,
    )
