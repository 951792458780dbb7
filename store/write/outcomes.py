"""What a shard reads and writes: the pairs without an answer, and the answers as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ratchet.plugins import Sample
from store.budget_leases import LeaseBalance, LeaseKey
from store.connection import Connection, Database
from store.encoding import from_json, optional_json, optional_text, storable_json, storable_text
from store.write.budgets import limits_in, write_balance
from store.write.overlays import configuration_in
from store.write.suites import suite_in
from store.write.unscored_answers import copy_unscored_from_other_runs, keep, load_unscored, take_scored
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.suite import EvaluationSuite, Outcome, UnscoredAnswer
from workflows.model.trial import ShardInput


@dataclass(frozen=True, slots=True)
class UnansweredPair:
    """One (sample, replicate) that needs an answer."""

    position: int
    item_hash: str
    replicate: int
    sample: Sample
    kept: UnscoredAnswer | None = None
    """What the target answered, when only the score is missing."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """What a shard has to do."""

    suite: EvaluationSuite
    configuration: dict[str, Any]
    pairs: list[UnansweredPair]
    """Those of the range that have no answer yet, in order."""
    found: int
    """How many already had one."""
    adjusted: AdjustedLimits
    """The run's limits, where they were changed since it began."""


class Outcomes:
    """Answers with their scores."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def missing(self, shard: ShardInput) -> ShardWork:
        """The pairs of the shard's range that nobody has answered yet."""
        async with self._database.connection() as connection:
            told = await connection.fetchrow(
                "SELECT s.body, r.limits, b.limited, o.configuration,"
                " EXISTS (SELECT FROM unscored_answers k WHERE k.run_id = $1 AND k.config_hash = $3)"
                " FROM suites s JOIN runs r USING (run_id) JOIN budgets b USING (run_id)"
                " LEFT JOIN overlays o ON o.config_hash = $3 WHERE s.run_id = $1 AND s.split = $2",
                shard.run_id,
                shard.split.value,
                shard.config_hash,
            )
            body, limits, budgeted, overlay, some_are_kept = told or (None, "{}", False, None, False)
            suite = suite_in(body, shard.run_id, shard.split)
            configuration = configuration_in(overlay, shard.config_hash)
            if suite.reuse == "always" or suite.retry_of is not None:
                await _copy_from_other_runs(connection, shard, suite)
                await copy_unscored_from_other_runs(connection, shard, suite)
                some_are_kept = True
            rows = await connection.fetch(
                """
                SELECT drawn.position, drawn.item_hash, s.item_id, s.input, s.expected, s.weight, s.tags,
                       ARRAY(
                           SELECT o.replicate FROM outcomes o
                           WHERE o.config_hash = $3 AND o.evaluator = $4 AND o.run_id = $1 AND o.item_hash = drawn.item_hash
                             AND o.replicate >= $8 AND o.replicate < $8 + $9
                       ) AS answered
                FROM suite_samples drawn
                JOIN samples s ON s.dataset_id = $5 AND s.item_hash = drawn.item_hash
                WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $6 AND drawn.position < $7
                ORDER BY drawn.position
                """,
                shard.run_id,
                shard.split.value,
                shard.config_hash,
                suite.evaluator,
                suite.dataset_id,
                *_positions(shard),
                shard.first_replicate,
                shard.replicates,
            )
            pairs: list[UnansweredPair] = []
            in_range = 0
            for row in rows:
                wanted = _replicates_of(shard, row["position"])
                in_range += len(wanted)
                missing = [replicate for replicate in wanted if replicate not in row["answered"]]
                if missing:
                    sample = _sample(row)
                    pairs += [UnansweredPair(row["position"], row["item_hash"], replicate, sample) for replicate in missing]
            if some_are_kept and pairs:
                kept = await load_unscored(connection, shard, suite.evaluator, [pair.item_hash for pair in pairs])
                pairs = [replace(pair, kept=kept.get((pair.item_hash, pair.replicate))) for pair in pairs]
            return ShardWork(suite, configuration, pairs, in_range - len(pairs), limits_in(limits, budgeted))

    async def commit(
        self,
        shard: ShardInput,
        evaluator: str,
        outcomes: Sequence[Outcome],
        lease: tuple[LeaseKey, LeaseBalance] | None = None,
        kept: Sequence[UnscoredAnswer] = (),
    ) -> None:
        """Store answers, scored or still to be, with what they took out of the budget; the first answer to a pair wins."""
        scored_later = [outcome for outcome in outcomes if outcome.was_kept]
        if lease is None and not kept and not scored_later:
            async with self._database.connection() as connection:
                await _insert(connection, shard, evaluator, outcomes)
            return
        async with self._database.transaction() as connection:
            if kept:
                await keep(connection, shard, evaluator, kept)
            await _insert(connection, shard, evaluator, outcomes)
            if scored_later:
                await take_scored(connection, shard, evaluator, scored_later)
            if lease is not None:
                await write_balance(connection, *lease)


def _positions(shard: ShardInput) -> tuple[int, int]:
    """The first sample that the range touches, and one past the last."""
    return shard.first // shard.replicates, -(-shard.last // shard.replicates)


def _replicates_of(shard: ShardInput, position: int) -> range:
    """Which replicates of a sample are in the range: all of them, except perhaps at its two ends."""
    start = max(shard.first - position * shard.replicates, 0)
    end = min(shard.last - position * shard.replicates, shard.replicates)
    return range(shard.first_replicate + start, shard.first_replicate + end)


def _sample(row: Any) -> Sample:
    return Sample(
        id=row["item_id"],
        input=from_json(row["input"]),
        expected=from_json(row["expected"]),
        weight=row["weight"],
        tags=tuple(row["tags"]),
    )


async def _copy_from_other_runs(connection: Connection, shard: ShardInput, suite: EvaluationSuite) -> None:
    """Take over what other runs have paid for, but failed answers; of several the oldest. A retry takes from one run only."""
    await connection.execute(
        """
        INSERT INTO outcomes (config_hash, evaluator, run_id, item_hash, replicate, status, passed, scores, score_details,
                              output, error, error_class, feedback, tokens, cost, latency_ms, ttft_ms, trace, trial_id,
                              reused_from)
        SELECT $3, $4, $1, drawn.item_hash, wanted.replicate, o.status, o.passed, o.scores, o.score_details,
               o.output, o.error, o.error_class, o.feedback, o.tokens, o.cost, o.latency_ms, o.ttft_ms, o.trace, $9,
               coalesce(o.reused_from, o.run_id)
        FROM suite_samples drawn
        CROSS JOIN generate_series($7::int, $7::int + $8::int - 1) AS wanted (replicate)
        CROSS JOIN LATERAL (
            SELECT * FROM outcomes other
            WHERE other.config_hash = $3 AND other.evaluator = $4 AND other.item_hash = drawn.item_hash
              AND other.replicate = wanted.replicate AND other.status = 'answered'
              AND other.run_id = ANY(ARRAY(SELECT DISTINCT run_id FROM candidates WHERE config_hash = $3 AND run_id <> $1))
              AND ($10::text IS NULL OR other.run_id = $10)
            ORDER BY other.created_at, other.run_id LIMIT 1
        ) o
        WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $5 AND drawn.position < $6
          AND EXISTS (SELECT FROM runs WHERE run_id = $1 FOR KEY SHARE)
        ON CONFLICT DO NOTHING
        """,
        shard.run_id,
        shard.split.value,
        shard.config_hash,
        suite.evaluator,
        *_positions(shard),
        shard.first_replicate,
        shard.replicates,
        shard.trial_id,
        suite.retry_of,
    )


async def _insert(connection: Connection, shard: ShardInput, evaluator: str, outcomes: Sequence[Outcome]) -> None:
    """Store answers. The first answer to a pair wins; a run that was deleted meanwhile gets none.

    The run's row is locked against its deletion, and against nothing else: answers that were committed while a deletion is
    under way would outlive it, and a later run of that id would find them.
    """
    if not outcomes:
        return
    await connection.execute(
        """
        INSERT INTO outcomes (config_hash, evaluator, run_id, trial_id, item_hash, replicate, status, passed, scores,
                              score_details, output, error, feedback, tokens, cost, latency_ms, ttft_ms, trace, error_class)
        SELECT $1, $2, $3, $4, * FROM unnest(
            $5::text[], $6::int[], $7::text[], $8::bool[], $9::jsonb[], $10::jsonb[], $11::json[], $12::text[],
            $13::text[], $14::bigint[], $15::float8[], $16::float8[], $17::float8[], $18::json[], $19::text[])
        WHERE EXISTS (SELECT FROM runs WHERE run_id = $3 FOR KEY SHARE)
        ON CONFLICT DO NOTHING
        """,
        shard.config_hash,
        evaluator,
        shard.run_id,
        shard.trial_id,
        [outcome.item_hash for outcome in outcomes],
        [outcome.replicate for outcome in outcomes],
        [outcome.status for outcome in outcomes],
        [outcome.passed for outcome in outcomes],
        [storable_json(outcome.scores) for outcome in outcomes],
        [optional_json(outcome.per_score or None) for outcome in outcomes],
        [optional_json(outcome.output) for outcome in outcomes],
        [optional_text(outcome.error) for outcome in outcomes],
        [storable_text(outcome.feedback) for outcome in outcomes],
        [outcome.tokens for outcome in outcomes],
        [outcome.cost for outcome in outcomes],
        [outcome.latency_ms for outcome in outcomes],
        [outcome.ttft_ms for outcome in outcomes],
        [optional_json(outcome.trace) for outcome in outcomes],
        [optional_text(outcome.error_class) for outcome in outcomes],
    )
