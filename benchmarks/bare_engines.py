"""The yardstick: what Temporal and PostgreSQL themselves take for the work of a trial, without anything of Ratchet.

A bare run starts as many child workflows as a run of Ratchet does, with payloads of the same sizes. Each has one local activity
and the same remote ones, on queues of their own, with the same settings of the workers; their bodies are empty but for the
transactions, each of which is one statement over rows of the same sizes. It is written in the best form that we know: no
sandbox, no models, text as payloads, prepared statements, no commit that could be spared. So it is the least that this design
takes on these servers at this moment; what Ratchet takes beyond it is Ratchet's.

`tests/benchmarks/test_bare_engines.py` holds that histories of both have the same events.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import asyncpg
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.workflow import ActivityCancellationType

from activities.shards.heartbeat import TICKS_PER_TIMEOUT
from worker import CONCURRENT_SHARDS, HEARTBEAT_THROTTLE, STICKY_TIMEOUT
from workflows.policies import CALLS_PER_SHARD

QUEUE: Final = "bare"
EVALUATION_QUEUE: Final = "bare-evaluation"
ANSWER_BYTES: Final = 100
"""What an instant answer and its score take of a row."""

HEARTBEAT_TIMEOUT: Final = timedelta(seconds=8)

TABLES: Final = """
    CREATE SCHEMA bare;
    CREATE TABLE bare.samples (position int PRIMARY KEY, body text NOT NULL);
    CREATE TABLE bare.trials (trial text PRIMARY KEY, begun text NOT NULL, ended text);
    CREATE TABLE bare.answers (trial text, position int, body text NOT NULL, PRIMARY KEY (trial, position));
"""


@dataclass(frozen=True)
class Shape:
    """How much a run does, and how large its payloads are in bytes."""

    rounds: int
    candidates: int = 1
    samples: int = 20
    concurrent: int = 16
    seconds: float = 0.0
    """How long an answer takes."""
    first_start: int = 2000
    """The start of a round's first child, with which the record of the round before travels."""
    start: int = 1000
    trial_result: int = 1200
    shard: int = 1500
    shard_result: int = 1300

    @property
    def trials(self) -> int:
        """As many as a run of Ratchet has: its baseline is one."""
        return 1 + self.rounds * self.candidates


def with_sizes_of(shape: Shape, run: Sequence[HistoryEvent], trial: Sequence[HistoryEvent]) -> Shape:
    """Give a bare run the payloads of a run of Ratchet and of its last trial."""
    starts = [_size(event.start_child_workflow_execution_initiated_event_attributes.input) for event in run]
    starts = [size for size in starts if size][1:]  # without the baseline
    results = [_size(event.child_workflow_execution_completed_event_attributes.result) for event in run]
    shards = [_size(event.activity_task_scheduled_event_attributes.input) for event in trial]
    shard_results = [_size(event.activity_task_completed_event_attributes.result) for event in trial]
    return replace(
        shape,
        first_start=max(starts),
        start=min(starts),
        trial_result=max(results),
        shard=max(shards),
        shard_result=max(shard_results),
    )


def _size(payloads: Payloads) -> int:
    return sum(len(payload.data) for payload in payloads.payloads)


@dataclass
class _Trial:
    number: int
    shape: Shape
    padding: str


@workflow.defn(name="BareRun")
class BareRun:
    """Rounds of children, one after the other."""

    @workflow.run
    async def run(self, name: str, shape: Shape) -> int:
        await self._child(name, 0, shape.start, shape)
        for number in range(shape.rounds):
            first = 1 + number * shape.candidates
            numbers = range(first, first + shape.candidates)
            sizes = [shape.first_start, *[shape.start] * (shape.candidates - 1)]
            children = [self._child(name, *each, shape) for each in zip(numbers, sizes, strict=True)]
            await asyncio.gather(*children)
        return shape.trials

    async def _child(self, name: str, number: int, size: int, shape: Shape) -> None:
        await workflow.execute_child_workflow(
            BareTrial.run,
            args=[f"{name}/{number}", shape, "x" * max(0, size - PARAMETER_BYTES)],
            id=f"{name}/{number}",
            priority=Priority(priority_key=3, fairness_key=name),
        )


PARAMETER_BYTES: Final = 220
"""What a trial's name and shape take beside the padding."""


@workflow.defn(name="BareTrial")
class BareTrial:
    """One local activity, then the shards side by side."""

    @workflow.run
    async def run(self, trial: str, shape: Shape, padding: str) -> str:
        await workflow.execute_local_activity("bare_begin", args=[trial, padding], start_to_close_timeout=timedelta(seconds=10))
        shards = range(0, shape.samples, CALLS_PER_SHARD)
        await asyncio.gather(*(self._shard(trial, first, shape) for first in shards))
        if len(shards) > 1:
            await self._activity("bare_conclude", [trial, "x" * shape.trial_result])
        return "x" * shape.trial_result

    async def _shard(self, trial: str, first: int, shape: Shape) -> None:
        padding = "x" * max(0, shape.shard - PARAMETER_BYTES)
        await self._activity("bare_shard", [trial, first, shape, padding])

    async def _activity(self, name: str, arguments: list[Any]) -> None:
        await workflow.execute_activity(
            name,
            args=arguments,
            task_queue=EVALUATION_QUEUE,
            start_to_close_timeout=timedelta(hours=24),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


class BareActivities:
    """Empty, but for what a trial must read and write."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], concurrent: int) -> None:
        self._pool = pool
        self._places = asyncio.Semaphore(concurrent)

    @activity.defn(name="bare_begin")
    async def begin(self, trial: str, padding: str) -> None:
        """What `begin_trial` writes, in one statement."""
        await self._pool.execute("INSERT INTO bare.trials (trial, begun) VALUES ($1, $2)", trial, padding)

    @activity.defn(name="bare_shard")
    async def shard(self, trial: str, first: int, shape: Shape, padding: str) -> str:
        """Read the samples, answer and store them, and record the trial where this is all of it."""
        ticker = asyncio.create_task(_tick())
        try:
            await self._work(trial, range(first, min(first + CALLS_PER_SHARD, shape.samples)), shape)
        finally:
            ticker.cancel()
        return "x" * shape.shard_result

    async def _work(self, trial: str, positions: range, shape: Shape) -> None:
        first, last = positions.start, positions.stop
        await self._pool.fetch("SELECT position, body FROM bare.samples WHERE position >= $1 AND position < $2", first, last)
        if shape.seconds:
            await self._answered(trial, range(first, last), shape)
        else:  # the best form: as many side by side as there are places, stored together
            for start in range(first, last, shape.concurrent):
                await self._store(trial, range(start, min(start + shape.concurrent, last)))
        if shape.samples <= CALLS_PER_SHARD:
            await self._record(trial, "x" * shape.trial_result)

    @activity.defn(name="bare_conclude")
    async def conclude(self, trial: str, padding: str) -> str:
        """The end of a trial of several shards."""
        await self._record(trial, padding)
        return padding

    async def _record(self, trial: str, result: str) -> None:
        await self._pool.fetch("SELECT position, body FROM bare.answers WHERE trial = $1", trial)
        await self._pool.execute("UPDATE bare.trials SET ended = $2 WHERE trial = $1", trial, result)

    async def _answered(self, trial: str, positions: range, shape: Shape) -> None:
        """Answer so many at once, over all shards. A place is free when its answer is stored, as it is in a run."""
        ready: list[tuple[int, asyncio.Future[None]]] = []
        storing: list[asyncio.Task[None]] = []

        async def store() -> None:
            while ready:
                batch, ready[:] = list(ready), []
                try:
                    await self._store(trial, [position for position, _ in batch])
                except Exception as error:
                    for _, stored in batch:
                        stored.set_exception(error)
                    return
                for _, stored in batch:
                    stored.set_result(None)

        async def answer(position: int) -> None:
            try:
                await asyncio.sleep(shape.seconds)
                stored = asyncio.get_running_loop().create_future()
                ready.append((position, stored))
                if not storing or storing[-1].done():
                    storing.append(asyncio.create_task(store()))
                await stored
            finally:
                self._places.release()

        answers: list[asyncio.Task[None]] = []
        for position in positions:
            await self._places.acquire()
            answers.append(asyncio.create_task(answer(position)))
        await asyncio.gather(*answers)

    async def _store(self, trial: str, positions: Sequence[int]) -> None:
        await self._pool.execute(
            "INSERT INTO bare.answers SELECT $1, position, $3 FROM unnest($2::int[]) AS position ON CONFLICT DO NOTHING",
            trial,
            list(positions),
            "x" * ANSWER_BYTES,
        )


@dataclass(frozen=True)
class BareEngines:
    """Workers of bare work on the servers of a benchmark."""

    client: Client

    async def run(self, shape: Shape, name: str | None = None) -> str:
        """One bare run, by its name."""
        name = name or f"bare-{secrets.token_hex(4)}"
        trials: int = await self.client.execute_workflow("BareRun", args=[name, shape], id=name, task_queue=QUEUE)
        assert trials == shape.trials
        return name


@asynccontextmanager
async def bare_engines(temporal_address: str, database_url: str, concurrent: int = 16) -> AsyncIterator[BareEngines]:
    """Serve bare work as a worker of ours serves runs: one worker for decisions, one for what takes long."""
    client = await Client.connect(temporal_address)
    async with asyncpg.create_pool(database_url, min_size=1, max_size=10, reset=_nothing) as pool:
        await pool.execute("DROP SCHEMA IF EXISTS bare CASCADE")
        await pool.execute(TABLES)
        await pool.execute("INSERT INTO bare.samples SELECT n, $1 FROM generate_series(0, 1999) n", "x" * ANSWER_BYTES)
        activities = BareActivities(pool, concurrent)
        deciding = Worker(
            client,
            task_queue=QUEUE,
            workflows=[BareRun, BareTrial],
            activities=[activities.begin],
            workflow_runner=UnsandboxedWorkflowRunner(),
            build_id="bare",
            max_concurrent_workflow_tasks=100,
            max_cached_workflows=1000,
            sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        )
        working = Worker(
            client,
            task_queue=EVALUATION_QUEUE,
            activities=[activities.shard, activities.conclude],
            build_id="bare",
            max_concurrent_activities=CONCURRENT_SHARDS,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        )
        async with deciding, working:
            yield BareEngines(client)


async def _tick() -> None:
    """Say that a shard lives, as often as a shard of a run says it."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_TIMEOUT.total_seconds() / TICKS_PER_TIMEOUT)


async def _nothing(_connection: object) -> None:
    pass
