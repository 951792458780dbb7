"""What a shard reads and writes: the pairs without an answer, and the answers as they come.

Statements that join samples with outcomes look each sample's outcomes up by their key (LATERAL … OFFSET 0). Left to choose,
PostgreSQL joins tables that it has no statistics of yet, those of a young run, by comparing everything with everything.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import asyncpg

from ratchet._canonical import content_hash
from ratchet.plugins import Record, Sample
from store.connection import Connection
from store.encoding import from_json, optional_json, optional_text, storable_json, storable_text
from store.schema import StoreError
from store.write import unscored_answers
from store.write.budgets import limits_in
from workflows.model.spec.judgement import MustPass
from workflows.model.spec.limits import AdjustedLimits
from workflows.model.suite import EvaluationSuite, KeptAnswer, MeasuredSample, Outcome
from workflows.model.trial import ShardInput, Split


@dataclass(frozen=True, slots=True)
class Pair:
    """One (sample, replicate) that needs an answer."""

    position: int
    item_hash: str
    replicate: int
    sample: Sample
    kept: KeptAnswer | None = None
    """What the target answered, when only the score is missing."""


@dataclass(frozen=True, slots=True)
class ShardWork:
    """What a shard has to do."""

    suite: EvaluationSuite
    configuration: dict[str, Any]
    pairs: list[Pair]
    """Those of the range that have no answer yet, in order."""
    found: int
    """How many already had one."""
    adjusted: AdjustedLimits
    """The run's limits, where they were changed since it began."""


async def load_shard(connection: Connection, shard: ShardInput) -> ShardWork:
    """The pairs of the shard's range that nobody has answered yet."""
    told = await connection.fetchrow(
        "SELECT s.body, r.limits, b.limited, o.configuration,"
        " EXISTS (SELECT FROM kept_answers k WHERE k.run_id = $1 AND k.config_hash = $3)"
        " FROM suites s JOIN runs r USING (run_id) JOIN budgets b USING (run_id)"
        " LEFT JOIN overlays o ON o.config_hash = $3 WHERE s.run_id = $1 AND s.split = $2",
        shard.run_id,
        shard.split.value,
        shard.config_hash,
    )
    body, limits, budgeted, overlay, some_are_kept = told or (None, "{}", False, None, False)
    suite = _suite(body, shard.run_id, shard.split)
    configuration = _configuration(overlay, shard.config_hash)
    if suite.reuse == "always" or suite.retry_of is not None:
        await _copy_from_other_runs(connection, shard, suite)
        await unscored_answers.copy_from_other_runs(connection, shard, suite)
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
    pairs: list[Pair] = []
    in_range = 0
    for row in rows:
        wanted = _replicates_of(shard, row["position"])
        in_range += len(wanted)
        missing = [replicate for replicate in wanted if replicate not in row["answered"]]
        if missing:
            sample = _sample(row)
            pairs += [Pair(row["position"], row["item_hash"], replicate, sample) for replicate in missing]
    if some_are_kept and pairs:
        kept = await unscored_answers.load(connection, shard, suite.evaluator, [pair.item_hash for pair in pairs])
        pairs = [replace(pair, kept=kept.get((pair.item_hash, pair.replicate))) for pair in pairs]
    return ShardWork(suite, configuration, pairs, in_range - len(pairs), limits_in(limits, budgeted))


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


async def load_suite(connection: Connection, run_id: str, split: Split) -> EvaluationSuite:
    body = await connection.fetchval("SELECT body FROM suites WHERE run_id = $1 AND split = $2", run_id, split.value)
    return _suite(body, run_id, split)


def _suite(body: str | None, run_id: str, split: Split) -> EvaluationSuite:
    if body is None:
        raise StoreError(f"run {run_id!r} has no samples for its {split.value} split in the store")
    return _parsed_suite(body)


@lru_cache(maxsize=32)
def _parsed_suite(body: str) -> EvaluationSuite:
    """Every shard and every trial of a run reads the same text; what comes of it is frozen."""
    return EvaluationSuite.model_validate_json(body)


async def load_overlay(connection: Connection, config_hash: str) -> dict[str, Any]:
    """A configuration, proven to be the one its hash names."""
    text = await connection.fetchval("SELECT configuration FROM overlays WHERE config_hash = $1", config_hash)
    return _configuration(text, config_hash)


def _configuration(text: str | None, config_hash: str) -> dict[str, Any]:
    if text is None:
        raise StoreError(f"overlay {config_hash} is not in the store")
    configuration: dict[str, Any] = json.loads(text)
    if content_hash(configuration) != config_hash:
        raise StoreError(f"overlay {config_hash} was changed in the store: its content no longer has this hash")
    return configuration


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


async def commit_outcomes(connection: Connection, shard: ShardInput, evaluator: str, outcomes: Sequence[Outcome]) -> None:
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


MEASURED = """
SELECT drawn.position, s.weight, o.replicate, o.status, o.scores, o.passed, o.tokens, o.cost, o.latency_ms,
       o.ttft_ms, o.score_details, o.error_class, o.reused_from IS NULL AS paid, o.trial_id, o.scored_by
FROM suites suite
JOIN suite_samples drawn ON drawn.run_id = suite.run_id AND drawn.split = suite.split
JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
CROSS JOIN LATERAL (
    SELECT * FROM outcomes
    WHERE config_hash = $3 AND evaluator = $4 AND run_id = $1 AND item_hash = drawn.item_hash
      AND replicate >= $5 AND replicate < $5 + $6 AND ($7::timestamptz IS NULL OR created_at <= $7)
    OFFSET 0
) o
WHERE suite.run_id = $1 AND suite.split = $2
ORDER BY drawn.position, o.replicate
"""

READ_AT_ONCE = 500
"""How many answers take less time to decode than a thread takes to begin."""

ANSWERS_AT_ONCE = 5_000
"""How many answers are held in memory while they are added up."""


async def measured(
    connection: Connection,
    run_id: str,
    split: Split,
    config_hash: str,
    evaluator: str,
    first_replicate: int,
    replicates: int,
    *,
    until: datetime | None = None,
) -> list[MeasuredSample]:
    """What a trial's answers were worth, sample by sample, replicate by replicate; without those that came later."""
    key = (run_id, split.value, config_hash, evaluator, first_replicate, replicates, until)
    rows = await connection.fetch(MEASURED, *key)
    return _measured_samples(rows) if len(rows) <= READ_AT_ONCE else await asyncio.to_thread(_measured_samples, rows)


async def measured_in_batches(
    connection: Connection,
    suite: EvaluationSuite,
    config_hash: str,
    first_replicate: int,
    replicates: int,
    *,
    until: datetime | None = None,
) -> AsyncIterator[list[MeasuredSample]]:
    """The same of a trial of any size, within a transaction."""
    key = (suite.run_id, suite.split.value, config_hash, suite.evaluator, first_replicate, replicates, until)
    cursor = await connection.cursor(MEASURED, *key)
    while rows := await cursor.fetch(ANSWERS_AT_ONCE):
        yield await asyncio.to_thread(_measured_samples, rows)


def _measured_samples(rows: Sequence[asyncpg.Record]) -> list[MeasuredSample]:
    return [_measured_sample(row) for row in rows]


def _measured_sample(row: asyncpg.Record) -> MeasuredSample:
    details = _score_details(row["score_details"])
    return MeasuredSample(
        row["position"],
        row["weight"],
        row["replicate"],
        row["status"],
        _decoded_scores(row["scores"]),
        row["passed"],
        row["tokens"],
        row["cost"],
        row["latency_ms"],
        row["ttft_ms"],
        details.passed,
        details.labels,
        details.tokens,
        details.cost,
        row["error_class"],
        row["paid"],
        row["trial_id"],
        row["scored_by"],
    )


@lru_cache(maxsize=4096)
def _decoded_scores(scores: str) -> dict[str, float]:
    """Few distinct scores come again and again; each is decoded once. Nobody changes what is shared here."""
    decoded: dict[str, float] = json.loads(scores)
    return decoded


@dataclass(frozen=True, slots=True)
class _ScoreDetails:
    """What aggregation reads of `score_details`, by score; reasons are left out."""

    passed: dict[str, bool] = field(default_factory=dict)
    labels: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    tokens: int = 0
    cost: float = 0.0


@lru_cache(maxsize=4096)
def _score_details(details: str | None) -> _ScoreDetails:
    if details is None:
        return _ScoreDetails()
    decoded: dict[str, dict[str, Any]] = json.loads(details)
    return _ScoreDetails(
        {name: detail["passed"] for name, detail in decoded.items() if isinstance(detail.get("passed"), bool)},
        {name: (detail["labels"][0], detail["labels"][1]) for name, detail in decoded.items() if detail.get("labels")},
        sum(detail.get("tokens", 0) for detail in decoded.values()),
        math.fsum(detail.get("cost", 0.0) for detail in decoded.values()),
    )


async def records(
    connection: Connection,
    run_id: str,
    split: Split,
    config_hash: str,
    limit: int,
    *,
    worst_first: bool = True,
    first: int = 0,
    count: int | None = None,
) -> list[Record]:
    """Evaluated samples as a proposer sees them: failed ones first, then from the worst score, in a fixed order."""
    suite = await load_suite(connection, run_id, split)
    worst = suite.objective.worst_score
    sign = 1.0 if suite.objective.direction == "maximize" else -1.0
    rows = await connection.fetch(
        """
        SELECT s.input, s.expected, o.output, o.error, o.feedback,
               CASE WHEN o.status = 'failed' THEN $7 ELSE coalesce((o.scores ->> $5)::float8, $7) END AS score
        FROM suite_samples drawn
        JOIN samples s ON s.dataset_id = $8 AND s.item_hash = drawn.item_hash
        CROSS JOIN LATERAL (
            SELECT * FROM outcomes
            WHERE config_hash = $3 AND evaluator = $4 AND run_id = $1 AND item_hash = drawn.item_hash
            OFFSET 0
        ) o
        WHERE drawn.run_id = $1 AND drawn.split = $2 AND drawn.position >= $11
          AND ($12::int IS NULL OR drawn.position < $11 + $12)
        ORDER BY CASE WHEN $9 THEN (o.status = 'failed' OR NOT o.passed)::int END DESC,
                 CASE WHEN $9 THEN (o.scores ->> $5)::float8 * $6 END ASC NULLS FIRST, drawn.position, o.replicate
        LIMIT $10
        """,
        run_id,
        split.value,
        config_hash,
        suite.evaluator,
        suite.metric,
        sign,
        worst,
        suite.dataset_id,
        worst_first,
        limit,
        first,
        count,
    )
    return [
        Record(
            inputs=from_json(row["input"]),
            output=from_json(row["output"]),
            score=row["score"],
            feedback=row["feedback"] or row["error"] or "",
            expected=from_json(row["expected"]),
        )
        for row in rows
    ]


async def must_pass(connection: Connection, run_id: str, split: Split, named: MustPass) -> dict[int, str]:
    """The places in a split of samples that every candidate must pass, with their ids."""
    rows = await connection.fetch(
        """
        SELECT drawn.position, s.item_id
        FROM suites suite
        JOIN suite_samples drawn USING (run_id, split)
        JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
        WHERE suite.run_id = $1 AND suite.split = $2 AND (s.item_id = ANY($3) OR s.tags && $4)
        ORDER BY drawn.position
        """,
        run_id,
        split.value,
        named.samples,
        named.tags,
    )
    return {row["position"]: row["item_id"] for row in rows}
