"""Evaluated samples as proposers, classifiers and error messages quote them."""

from __future__ import annotations

import re
from typing import Final, Literal

from ratchet import Record
from store.connection import Database
from store.encoding import from_json
from store.write.suites import load_suite
from workflows.model.trial import Split

LONGEST_PRINTED: Final = 300
_SPACES: Final = re.compile(r"\s+")


class EvaluatedSamples:
    """Samples with what was answered to them, and what that was worth."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def first_error(
        self, run_id: str, split: Split, config_hash: str, status: Literal["failed", "unscored"] = "failed"
    ) -> str | None:
        """What went wrong with the first sample that failed, or that a scorer failed on, and where."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(
                """
                SELECT o.error, o.printed
                FROM suites suite
                JOIN suite_samples drawn USING (run_id, split)
                CROSS JOIN LATERAL (
                    SELECT * FROM outcomes
                    WHERE config_hash = $3 AND target = suite.target AND scorer = suite.scorer AND run_id = suite.run_id
                      AND item_hash = drawn.item_hash
                    OFFSET 0
                ) o
                WHERE suite.run_id = $1 AND suite.split = $2 AND o.status = $4
                ORDER BY drawn.position, o.replicate LIMIT 1
                """,
                run_id,
                split.value,
                config_hash,
                status,
            )
            if row is None:
                return None
            printed = None if row["printed"] is None else f"  printed: {_SPACES.sub(' ', row['printed'])[-LONGEST_PRINTED:]}"
            return "\n".join(part for part in (row["error"], printed) if part is not None)

    async def records(
        self,
        run_id: str,
        split: Split,
        config_hash: str,
        limit: int,
        worst_first: bool = True,
        first: int = 0,
        count: int | None = None,
    ) -> list[Record]:
        """Evaluated samples as a proposer sees them: failed ones first, then from the worst score, in a fixed order."""
        async with self._database.connection() as connection:
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
                    WHERE config_hash = $3 AND target = $4 AND scorer = $13 AND run_id = $1 AND item_hash = drawn.item_hash
                      AND status <> 'unscored'
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
                suite.target_fingerprint,
                suite.metric,
                sign,
                worst,
                suite.dataset_id,
                worst_first,
                limit,
                first,
                count,
                suite.scorer_fingerprint,
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
