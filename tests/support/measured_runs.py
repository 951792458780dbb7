"""A run whose suite and samples a test states, kept in the session's PostgreSQL, and a worker's evaluation over it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from activities.endpoints.chat_models import ChatModels, Patience
from activities.endpoints.gate import Gates
from activities.evaluation import ShardEvaluation
from activities.observation.call_observation import UNOBSERVED, CallObservation
from activities.plugins.loader import Plugins
from activities.settings import ALLOWED_FILE
from activities.shards.call_journal import CallJournal
from ratchet import Record, Sample
from ratchet._formats.canonical import canonical_json, content_hash
from store.connection import is_away
from store.encoding import from_json
from store.write.datasets import Datasets, SampleRow
from store.write.repositories import Store
from store.write.runs import NewRun
from store.write.suites import DrawnSuite
from tests.support.allowed import FILE, lists_of
from tests.support.interrupted_database import InterruptedDatabase
from tests.support.suite_building import CONFIGURATION, PLUGINS, RUN_ID, shard
from workflows.model.run.contract import CommitRounds
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import EvaluationSuite, MeasuredSample, Outcome
from workflows.model.trial import ShardInput

QUICK = Patience(seconds=5.0, attempts=4, first_delay=0.01, longest_delay=0.02)
REQUEST = OptimizationRequest.model_validate(
    {
        "name": "measured",
        "configuration": {"a": {"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 9}},
        "target": {"kind": "python", "ref": f"{PLUGINS}:echo"},
        "dataset": {"items": [{"input": 1}]},
        "objective": {"metric": "exact"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
    }
)


@dataclass
class MeasuredRun:
    """A run with one suite and one configuration. It is stored when its evaluation begins."""

    suite: EvaluationSuite
    samples: list[Sample]
    configuration: Mapping[str, Any] = field(default_factory=lambda: dict(CONFIGURATION))
    limits: Mapping[str, Any] = field(default_factory=dict)
    """As the adjust update left them."""
    records: Sequence[Record] = ()
    """What is answered already, one record a sample."""

    _is_open: bool = field(default=False, init=False)

    database: ClassVar[InterruptedDatabase]
    """The session's; the fixture `measured_runs` opens it, and empties it after each test."""

    @property
    def store(self) -> Store:
        return Store(self.database)

    @property
    def config_hash(self) -> str:
        return content_hash(self.configuration)

    def shard(self, last: int, **more: Any) -> ShardInput:
        return shard(last, config_hash=self.config_hash, **more)

    async def open(self) -> None:
        """Store the run, once, in place of the one that a test measured before."""
        if self._is_open:
            return
        self._is_open = True
        refusals = self.database.refusals_left, self.database.refused_transactions_left
        await self.database.empty()
        await self._store()
        self.database.refusals_left, self.database.refused_transactions_left = refusals

    async def _store(self) -> None:
        rows = [
            SampleRow(
                position,
                f"item-{sample.id}",
                sample.id,
                canonical_json(sample.input),
                canonical_json(sample.expected),
                sample.weight,
                list(sample.tags),
            )
            for position, sample in enumerate(self.samples)
        ]
        batches = [rows]

        async def batch() -> list[SampleRow]:
            return batches.pop() if batches else []

        await Datasets(self.database).store(self.suite.dataset_id, "measured", len(rows), batch)
        drawn = self.suite.model_copy(update={"samples": len(rows)})
        await self.store.runs.open(
            NewRun(
                run_id=RUN_ID,
                execution_id="execution",
                request=REQUEST,
                task_queue="optimization",
                versions={},
                baseline_hash=self.config_hash,
                baseline=dict(self.configuration),
                suites=[DrawnSuite(drawn, [row.item_hash for row in rows])],
            )
        )
        if self.limits:
            await self.store.runs.commit_rounds(CommitRounds(run_id=RUN_ID, records=(), limits=dict(self.limits)))
        answered = [
            Outcome(row.item_hash, 0, "answered", {drawn.metric: record.score}, False, record.output, feedback=record.feedback)
            for row, record in zip(rows, self.records, strict=False)
        ]
        await self.store.outcomes.commit(self.shard(len(rows), split=drawn.split), drawn, answered)

    async def outcomes(self) -> dict[tuple[str, int], Outcome]:
        """What is stored, by sample and replicate."""
        async with self.database.connection() as connection:
            rows = await connection.fetch(
                "SELECT item_id, o.* FROM outcomes o JOIN samples USING (item_hash) ORDER BY position, replicate"
            )
        return {
            (row["item_id"], row["replicate"]): Outcome(
                row["item_hash"],
                row["replicate"],
                row["status"],
                from_json(row["scores"]),
                row["passed"],
                from_json(row["output"]),
                row["error"],
                row["feedback"],
                row["tokens"],
                row["cost"],
                row["latency_ms"],
                row["ttft_ms"],
                from_json(row["trace"]),
                from_json(row["score_details"]) or {},
                row["error_class"],
                printed=row["printed"],
                echoed=row["echoed"],
                cached_tokens=row["cached_tokens"],
            )
            for row in rows
        }

    async def by_sample(self) -> dict[str, Outcome]:
        """Outcomes by sample id; for shards with one replicate."""
        return {sample_id: outcome for (sample_id, _), outcome in (await self.outcomes()).items()}

    async def measured(self) -> list[MeasuredSample]:
        suite = self.suite
        return await self.store.measured_samples.load(suite, self.config_hash, 0, 1)

    async def recorded(self) -> list[tuple[str, float | None, list[float | None]]]:
        """Status, score and the samples' means of trials that are over."""
        async with self.database.connection() as connection:
            rows = await connection.fetch("SELECT status, score, sample_means FROM trials WHERE status <> 'running'")
        return [tuple(row) for row in rows]

    async def largest_batch(self) -> int:
        """How many outcomes one statement has stored at most."""
        async with self.database.connection() as connection:
            counts = await connection.fetch("SELECT count(*) AS stored FROM outcomes GROUP BY created_at")
        return max(int(row["stored"]) for row in counts)

    async def forget_proposals(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute("DELETE FROM proposals")

    async def count(self, table: str) -> int:
        async with self.database.connection() as connection:
            return int(await connection.fetchval(f"SELECT count(*) FROM {table}"))


@asynccontextmanager
async def evaluation(
    run: MeasuredRun,
    *,
    environment: Mapping[str, str] | None = None,
    patience: Patience = QUICK,
    observation: CallObservation = UNOBSERVED,
    **more: Any,
) -> AsyncIterator[ShardEvaluation]:
    """A worker's evaluation over a run, with short patience."""
    await run.open()
    lists = lists_of({ALLOWED_FILE: str(FILE), **(environment or {})})
    models = ChatModels(Gates(), lists, patience=patience, observation=observation)
    with tempfile.TemporaryDirectory() as folder:
        given = {"journal": CallJournal(Path(folder)), **more}
        evaluating = ShardEvaluation(run.store, models, Plugins([PLUGINS]), is_away=is_away, **given)
        try:
            yield evaluating
        finally:
            await evaluating.close()
