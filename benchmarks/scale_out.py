"""More workers: calls per second, one rate limit for all of them, budget reservations, and the shares of runs side by side.

    python -m benchmarks.scale_out [--quick]

The work waits: targets take half a second, so that two cores are enough for eight evaluation workers, and what is measured is
how they share work, not how they share a processor. Calls are counted while every worker has work, by when answers were stored.
Reservations are measured at leases of several workers of one run, which all want the same row of PostgreSQL, with calls that
take no time at all.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import WorkflowFailureError

from activities.budget.lease import BudgetLease, fresh_nonce
from benchmarks.engine import one_trial, stored_dataset
from benchmarks.figures import Figure, main
from benchmarks.processes import BenchServers, bench_servers
from benchmarks.rate_limit import chat_spec, simulated
from clients.demo.models import ECHO
from store.budget_leases import LeaseKey
from store.connection import Database, is_away
from store.write.limits.budgets import Budgets

WORKERS: Final = (1, 2, 4, 8)
PLACES: Final = 16
"""Calls in flight that each worker allows (RATCHET_CONCURRENT_SAMPLES)."""

MILLISECONDS: Final = 500
RUNS: Final = 4
"""Runs that together have enough shards pending for every worker."""

SETTLED_SECONDS: Final = 1.5
"""After so long every worker has shards, and the first wave of calls is over."""

LIMIT_PER_SECOND: Final = 100
SIDE_BY_SIDE: Final = 20
EVALUATION_QUEUE: Final = "optimization-evaluation"
LEASES: Final = 8
IN_FLIGHT: Final = 64


async def measure(quick: bool) -> list[Figure]:
    window, reservations = (4.0, 10_000) if quick else (20.0, 100_000)
    limits = {"RATCHET_CONCURRENT_SAMPLES": str(PLACES)}
    rates: dict[int, float] = {}
    async with bench_servers() as servers, AsyncExitStack() as workers:
        await workers.enter_async_context(servers.worker(RATCHET_ROLE="workflows"))
        figures: list[Figure] = []
        for number in WORKERS:
            for _ in range(number - max(rates, default=0)):
                await workers.enter_async_context(servers.worker(RATCHET_ROLE="evaluation", **limits))
            await until(lambda: pollers(servers), number)
            if number == WORKERS[0]:
                figures += [await shares(servers, window), await reserved(servers, reservations)]
            rates[number] = await calls_per_second(servers, f"scale-{number}", window)
        return [*scaling(rates), *figures, await shared_limit(servers, 10.0 if quick else 30.0)]


def scaling(rates: dict[int, float]) -> list[Figure]:
    """Calls per second, and how much of a straight line they are."""
    one = rates[WORKERS[0]]
    return [
        Figure(
            f"calls a second of one worker, {PLACES} × {MILLISECONDS} ms, over the ideal", one * MILLISECONDS / 1000 / PLACES
        ),
        *(
            Figure(f"calls a second of {number} workers over {number} times one's", rate / one / number, at_least=0.95)
            for number, rate in rates.items()
            if number > WORKERS[0]
        ),
    ]


async def pollers(servers: BenchServers) -> int:
    """Processes that ask for evaluations."""
    request = DescribeTaskQueueRequest(
        namespace="default",
        task_queue=TaskQueue(name=EVALUATION_QUEUE),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    told = await servers.client.workflow_service.describe_task_queue(request)
    return len({poller.identity for poller in told.pollers})


async def calls_per_second(servers: BenchServers, name: str, window: float) -> float:
    """While every worker has as much to do as it takes."""
    dataset = stored_dataset(servers, 20_000)
    specs = {f"{name}-{number}": one_trial(f"takes_{MILLISECONDS}_ms", 0, PLACES, dataset=dataset) for number in range(RUNS)}
    async with begun(servers, specs) as runs:
        return sum(await counted(servers, runs, window)) / window


@asynccontextmanager
async def begun(servers: BenchServers, specs: dict[str, dict[str, Any]]) -> AsyncIterator[Sequence[str]]:
    """Runs that are cancelled when enough was seen of them."""
    handles = [
        await servers.client.start_workflow("OptimizationWorkflow", spec, id=run_id, task_queue="optimization")
        for run_id, spec in specs.items()
    ]
    try:
        yield list(specs)
    finally:
        for handle in handles:
            await handle.cancel()
        for handle in handles:
            with suppress(WorkflowFailureError):
                await handle.result()


async def counted(servers: BenchServers, runs: Sequence[str], window: float) -> list[int]:
    """Answers of each run within a window that begins when all runs have answers and the first calls are over."""
    having_answers = "SELECT count(DISTINCT run_id) FROM answers WHERE run_id = ANY($1)"
    await until(lambda: servers.fetchval(having_answers, list(runs)), len(runs))
    await asyncio.sleep(SETTLED_SECONDS)
    began = await servers.fetchval("SELECT clock_timestamp()")
    await asyncio.sleep(window + 0.2)
    answers: list[int] = await servers.fetchval(
        """
        SELECT array_agg(answers) FROM (
            SELECT count(a.answer_id) AS answers FROM unnest($1::text[]) AS run (run_id)
            LEFT JOIN answers a ON a.run_id = run.run_id AND a.created_at >= $2
                AND a.created_at < $2 + make_interval(secs => $3)
            GROUP BY run.run_id
        ) AS of_runs
        """,
        list(runs),
        began,
        window,
    )
    return answers


async def until(told: Callable[[], Awaitable[int]], number: int) -> None:
    """Wait until so many are told."""
    async with asyncio.timeout(120):
        while await told() < number:  # noqa: ASYNC110 (it happens in other processes)
            await asyncio.sleep(0.1)


async def shared_limit(servers: BenchServers, window: float) -> Figure:
    """Of all workers together, over what the spec allows."""
    limits = {ECHO: {"requests_per_minute": LIMIT_PER_SECOND * 60}}
    with simulated(latency_ms=50) as url:
        calls = math.ceil((window + 20) * LIMIT_PER_SECOND)
        async with begun(servers, {"limited": chat_spec(url, calls, PLACES, rate_limits=limits)}) as runs:
            rate = sum(await counted(servers, runs, window)) / window
    name = f"calls a second of {WORKERS[-1]} workers over a stated limit of {LIMIT_PER_SECOND}"
    return Figure(name, rate / LIMIT_PER_SECOND, 1.02, at_least=0.98)


async def shares(servers: BenchServers, window: float) -> Figure:
    """Runs that all wait for the places of one worker: how much more the mean run gets than the one that gets least."""
    dataset = stored_dataset(servers, 20_000)
    specs = {f"side-{number}": one_trial("takes_50_ms", 0, PLACES, dataset=dataset) for number in range(SIDE_BY_SIDE)}
    async with begun(servers, specs) as runs:
        answers = await counted(servers, runs, window)
    return Figure(
        f"{SIDE_BY_SIDE} runs side by side, answers of the mean run over those of the least", unfairness(answers), 1.2
    )


def unfairness(answers: Sequence[int]) -> float:
    """1 where all got the same; without end where one got nothing."""
    return statistics.mean(answers) / min(answers) if min(answers) else math.inf


async def reserved(servers: BenchServers, reservations: int) -> Figure:
    """As fast as leases hand them out that are side by side on one run's budget."""
    run_id = "reserving"
    await servers.run(run_id, one_trial("instant", 10, 4) | {"budget": {"trials": 1, "samples": 10**9}})
    database = await Database.open(servers.stack.database_url)
    try:
        began = time.perf_counter()
        each = reservations // LEASES
        await asyncio.gather(*(hand_out(database, run_id, f"holder-{number}", each) for number in range(LEASES)))
        seconds = time.perf_counter() - began
    finally:
        await database.close()
    return Figure(f"reservations a second, {LEASES} leases on one run's budget", each * LEASES / seconds, at_least=5000.0)


async def hand_out(database: Database, run_id: str, holder: str, number: int) -> None:
    """So many reservations of one lease, as many at once as a busy shard has calls."""
    key = LeaseKey(run_id, holder, attempt=1, nonce=fresh_nonce(), lasts=60.0)
    lease = BudgetLease(Budgets(database), key, is_away, most_needed=number)
    left = iter(range(number))

    async def take() -> None:
        for _ in left:
            reservation = await lease.reservation()
            reservation.answered(0, 0.0)
            reservation.close()

    async with lease.open():
        await asyncio.gather(*(take() for _ in range(IN_FLIGHT)))


if __name__ == "__main__":
    main("More workers on the same servers, embedded stack", measure)
