"""Evaluation suites: what the trials of a run are measured with, and the samples drawn for each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ratchet import Sample
from store.connection import Connection, Database
from store.encoding import from_json
from store.encrypted_contents import contents_of
from store.schema import StoreError
from workflows.model.spec.judgement import MustPass
from workflows.model.suite import EvaluationSuite
from workflows.model.trial import Split

READ_BY_QUERIES: Final = ("same_as", "left_out", "retry_of", "rescore_of")
"""Of a suite's body: places of samples, and names of runs."""


@dataclass(frozen=True, slots=True)
class DrawnSuite:
    """A suite with the samples drawn for it, in order."""

    suite: EvaluationSuite
    item_hashes: Sequence[str]


class Suites:
    """The suites of runs, one for each split."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, run_id: str, split: Split) -> EvaluationSuite:
        """What every trial on a split is measured with."""
        async with self._database.connection() as connection:
            return await load_suite(connection, run_id, split)

    async def must_pass(self, run_id: str, split: Split, named: MustPass) -> dict[int, str]:
        """The places in a split of samples that every candidate must pass, with their ids."""
        async with self._database.connection() as connection:
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

    async def first_samples(self, run_id: str, split: Split, limit: int) -> list[Sample]:
        """Samples of a split in its order, whether they were measured or not."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                """
                SELECT s.item_id, s.input, s.expected, s.weight, s.tags
                FROM suites JOIN suite_samples drawn USING (run_id, split)
                JOIN samples s ON s.dataset_id = suites.dataset_id AND s.item_hash = drawn.item_hash
                WHERE run_id = $1 AND split = $2 ORDER BY drawn.position LIMIT $3
                """,
                run_id,
                split.value,
                limit,
            )
            return [
                Sample(row["item_id"], from_json(row["input"]), from_json(row["expected"]), row["weight"], tuple(row["tags"]))
                for row in rows
            ]


async def store_suite(connection: Connection, run_id: str, drawn: DrawnSuite) -> None:
    """Store a suite of a run that is opened, within its transaction."""
    suite = drawn.suite
    body = suite.model_dump(mode="json", by_alias=True)
    await connection.execute(
        "INSERT INTO suites (run_id, split, suite_id, dataset_id, target, scorer, samples, body)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        run_id,
        suite.split.value,
        suite.suite_id,
        suite.dataset_id,
        suite.target_fingerprint,
        suite.scorer_fingerprint,
        suite.samples,
        contents_of(connection).json(body, {name: body[name] for name in READ_BY_QUERIES if name in body}),
    )
    await connection.execute(
        "INSERT INTO suite_samples (run_id, split, position, item_hash)"
        " SELECT $1, $2, place - 1, item_hash FROM unnest($3::text[]) WITH ORDINALITY AS drawn (item_hash, place)",
        run_id,
        suite.split.value,
        drawn.item_hashes,
    )


async def load_suite(connection: Connection, run_id: str, split: Split) -> EvaluationSuite:
    """The same for whoever reads more at the same moment."""
    body = await connection.fetchval("SELECT body FROM suites WHERE run_id = $1 AND split = $2", run_id, split.value)
    return suite_in(body, run_id, split)


def suite_in(body: str | None, run_id: str, split: Split) -> EvaluationSuite:
    if body is None:
        raise StoreError(f"run {run_id!r} has no samples for its {split.value} split in the store")
    return _parsed_suite(body)


@lru_cache(maxsize=32)
def _parsed_suite(body: str) -> EvaluationSuite:
    """Every shard and every trial of a run reads the same text; what comes of it is frozen."""
    return EvaluationSuite.model_validate_json(body)
