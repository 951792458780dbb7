"""What the answers to trials were worth, sample by sample: what aggregation and judgement read, no output and no text.

Statements that join samples with outcomes look each sample's outcomes up by their key (LATERAL … OFFSET 0), and those that join
answers with scores do likewise. Left to choose, PostgreSQL joins tables that it has no statistics of yet, those of a young run,
by comparing everything with everything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import asyncpg

from store.connection import Connection, Database
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.rules.scoring.tally import Tally

MEASURED = """
SELECT drawn.position, s.weight, o.replicate, o.status, o.scores, o.passed, o.tokens, o.cost, o.latency_ms,
       o.ttft_ms, o.score_details, o.scoring_tokens, o.scoring_cost, o.error_class, o.reused_from IS NULL AS paid,
       o.trial_id, o.scored_by, o.cached_tokens, o.scoring_cached_tokens
FROM suites suite
JOIN suite_samples drawn ON drawn.run_id = suite.run_id AND drawn.split = suite.split
JOIN samples s ON s.dataset_id = suite.dataset_id AND s.item_hash = drawn.item_hash
CROSS JOIN LATERAL (
    SELECT * FROM outcomes
    WHERE config_hash = $3 AND target = suite.target AND scorer = suite.scorer AND run_id = $1
      AND item_hash = drawn.item_hash AND replicate >= $4 AND replicate < $4 + $5
      AND ($6::timestamptz IS NULL OR created_at <= $6)
    OFFSET 0
) o
WHERE suite.run_id = $1 AND suite.split = $2
ORDER BY drawn.position, o.replicate
"""

READ_AT_ONCE = 500
"""How many answers take less time to decode than a thread takes to begin."""

ANSWERS_AT_ONCE = 5_000
"""How many answers are held in memory while they are added up."""


class MeasuredSamples:
    """What answers were worth."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(
        self, suite: EvaluationSuite, config_hash: str, first_replicate: int, replicates: int
    ) -> list[MeasuredSample]:
        """Those of a trial; `paid` says which of them were not copied from another run."""
        async with self._database.connection() as connection:
            return await measured(connection, suite, config_hash, first_replicate, replicates)

    async def tally(self, tally: Tally, config_hash: str, first_replicate: int, replicates: int) -> None:
        """Add up what the answers to a trial were worth, without holding them all."""
        suite = tally.suite
        if suite.samples * replicates <= ANSWERS_AT_ONCE:
            tally.add(await self.load(suite, config_hash, first_replicate, replicates))
            return
        async with self._database.snapshot() as connection:
            async for batch in measured_in_batches(connection, suite, config_hash, first_replicate, replicates):
                tally.add(batch)


async def measured(
    connection: Connection,
    suite: EvaluationSuite,
    config_hash: str,
    first_replicate: int,
    replicates: int,
    *,
    until: datetime | None = None,
) -> list[MeasuredSample]:
    """What a trial's answers were worth, sample by sample, replicate by replicate; without those that came later."""
    key = (suite.run_id, suite.split.value, config_hash, first_replicate, replicates, until)
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
    key = (suite.run_id, suite.split.value, config_hash, first_replicate, replicates, until)
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
        row["scoring_tokens"],
        row["scoring_cost"],
        row["error_class"],
        row["paid"],
        row["trial_id"],
        row["scored_by"],
        row["cached_tokens"],
        row["scoring_cached_tokens"],
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


@lru_cache(maxsize=4096)
def _score_details(details: str | None) -> _ScoreDetails:
    if details is None:
        return _ScoreDetails()
    decoded: dict[str, dict[str, Any]] = json.loads(details)
    return _ScoreDetails(
        {name: detail["passed"] for name, detail in decoded.items() if isinstance(detail.get("passed"), bool)},
        {name: (detail["labels"][0], detail["labels"][1]) for name, detail in decoded.items() if detail.get("labels")},
    )
