"""The evaluation engine in a worker process of its own: how close to ideal, what an outcome costs, how much memory it takes.

    python -m benchmarks.engine [--quick]

Wall over ideal is of one trial, from its first call to its last stored answer; the ideal is calls × latency ÷ concurrency.
Where a bare loop of calls that only wait needs more than the target, 3 % more than the loop are allowed.
CPU is the worker's own, as a ratio to bare loops of the same calls (`benchmarks.bare_calls`), with which it takes turns.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.bare_calls import bare_cpu, told_by
from benchmarks.efficiency import most_beside
from benchmarks.figures import Figure, main
from benchmarks.processes import BenchServers, WorkerProcess, bench_servers
from benchmarks.rate_limit import chat_spec, simulated
from benchmarks.specs import spec

EFFICIENCY = ((1, 50, None), (16, 50, 1.05), (64, 50, None), (256, 50, None), (1, 200, None), (16, 200, None), (64, 200, 1.05),
              (256, 200, 1.2))  # fmt: skip
"""Concurrency, milliseconds of latency, and the target where one was set."""

QUICK_EFFICIENCY = ((16, 50, 1.05), (64, 200, 1.05), (256, 200, 1.2))
NO_TARGET = math.inf
"""Shown, and never missed: the client's own cost decides it more than the engine."""

MOST_OF_CHAT = 1.5
MOST_OF_PYTHON = 0.15
"""Of a call by the bare OpenAI client: what is the engine's own stays small beside a call."""


async def measure(quick: bool) -> list[Figure]:
    async with bench_servers() as servers, servers.worker() as worker:
        await servers.run("warm-up", one_trial("instant", 200, 16))
        figures = [
            await efficiency(servers, concurrent, latency, most, 3.0 if quick else 8.0)
            for concurrent, latency, most in (QUICK_EFFICIENCY if quick else EFFICIENCY)
        ]
        figures += await cpu_per_answer(servers, worker, quick)
        figures += await memory(servers, worker, (1000, 20_000) if quick else (1000, 100_000, 1_000_000))
    return figures


def one_trial(target: str, samples: int, concurrent: int, **parts: Any) -> dict[str, Any]:
    """The baseline, and nothing else."""
    execution = {"concurrent_samples": concurrent}
    return spec(target, samples, rounds=1, budget={"trials": 1}, execution=execution, **parts)


async def efficiency(servers: BenchServers, concurrent: int, latency: int, most: float | None, seconds: float) -> Figure:
    calls = max(concurrent, round(concurrent * seconds * 1000 / latency))
    run_id = f"efficiency-{concurrent}-{latency}"
    dataset = stored_dataset(servers, min(calls, 1000))
    replicates = math.ceil(calls / min(calls, 1000))
    await servers.run(run_id, one_trial(f"takes_{latency}_ms", 0, concurrent, dataset=dataset, replicates=replicates))
    wall, answered = await servers.fetchrow(
        "SELECT extract(epoch FROM max(created_at) - min(created_at - latency_ms * interval '1 ms'))::float8, count(*)"
        " FROM outcomes WHERE run_id = $1",
        run_id,
    )
    ideal = math.ceil(answered / concurrent) * latency / 1000
    bare = await told_by("waiting", str(latency), answered, concurrent) / ideal
    told = f"{concurrent} × {latency} ms, {answered} calls (a bare loop: {bare:.3f})"
    return Figure(f"wall over ideal, {told}", wall / ideal, most_beside(bare, most) if most else NO_TARGET)


async def cpu_per_answer(servers: BenchServers, worker: WorkerProcess, quick: bool) -> list[Figure]:
    """By the clock of the worker's processor. Chat answers are compared with the same calls by a bare client.

    A function that does nothing takes nothing, so what a Python target's answer takes is compared with such a call, too; beside
    it stands a bare loop over the same function.
    """
    repeats = 2 if quick else 5
    python = await python_answers(servers, worker, 10_000 if quick else 50_000, repeats)
    chat = await chat_answers(servers, worker, 500 if quick else 3000, repeats)
    return of_chat(chat) + of_python(python, chat)


Pairs = Sequence[tuple[float, float]]
"""Milliseconds per answer of neighbours, of which a bare loop is the first."""


async def python_answers(servers: BenchServers, worker: WorkerProcess, outcomes: int, repeats: int) -> Pairs:
    dataset, pairs = stored_dataset(servers, 1000), []
    for number in range(repeats):
        bare = await bare_cpu("python", servers.stack.database_url, outcomes, 64)
        before = worker.cpu_seconds()
        await servers.run(f"cpu-{number}", one_trial("instant", 0, 64, dataset=dataset, replicates=outcomes // 1000))
        pairs.append((bare, (worker.cpu_seconds() - before) * 1000 / outcomes))
    return pairs


async def chat_answers(servers: BenchServers, worker: WorkerProcess, outcomes: int, repeats: int) -> Pairs:
    pairs = []
    with simulated(latency_ms=20) as url:
        await servers.run("chat-warm-up", chat_spec(url, 50, 16))
        for number in range(repeats):
            bare = await bare_cpu("chat", url, outcomes, 32)
            before = worker.cpu_seconds()
            await servers.run(f"chat-{number}", chat_spec(url, outcomes, 32))
            pairs.append((bare, (worker.cpu_seconds() - before) * 1000 / outcomes))
    return pairs


def of_chat(chat: Pairs) -> list[Figure]:
    its, ours = (statistics.median(values) for values in zip(*chat, strict=True))
    return [
        Figure(
            "CPU of a chat answer over the bare OpenAI client",
            statistics.median(ours / bare for bare, ours in chat),
            MOST_OF_CHAT,
        ),
        Figure("CPU of a chat answer", ours, unit="ms"),
        Figure("CPU of a call by the bare OpenAI client", its, unit="ms"),
    ]


def of_python(python: Pairs, chat: Pairs) -> list[Figure]:
    its, ours = (statistics.median(values) for values in zip(*python, strict=True))
    return [
        Figure(
            "CPU of a Python target's answer over a call by the bare OpenAI client",
            ours / statistics.median(bare for bare, _ in chat),
            MOST_OF_PYTHON,
        ),
        Figure("CPU of a Python target's answer", ours, unit="ms"),
        Figure("CPU of a bare loop over the same function, stored in batches", its, unit="ms"),
    ]


async def memory(servers: BenchServers, worker: WorkerProcess, sizes: tuple[int, ...]) -> list[Figure]:
    """The most that the worker takes while it answers so many samples, and how much more that is than for few."""
    peaks: dict[int, float] = {}
    for outcomes in sizes:
        samples = min(outcomes, 20_000)
        dataset = stored_dataset(servers, samples)
        async with peak_memory(worker) as peak:
            await servers.run(
                f"memory-{outcomes}", one_trial("instant", 0, 64, dataset=dataset, replicates=outcomes // samples)
            )
        peaks[outcomes] = peak[0]
    few, many = sizes[0], sizes[-1]
    return [
        *(Figure(f"resident memory of the worker at {size:,} outcomes", peaks[size], 300.0, "MB") for size in sizes),
        Figure(f"memory at {many:,} outcomes over {few:,}", peaks[many] / peaks[few], 1.5),
    ]


@asynccontextmanager
async def peak_memory(worker: WorkerProcess) -> AsyncIterator[list[float]]:
    peak = [worker.resident_mb()]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], worker.resident_mb())
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        watching.cancel()


def stored_dataset(servers: BenchServers, samples: int) -> dict[str, str]:
    servers.write_dataset(f"{samples}.jsonl", samples)
    return {"path": f"{samples}.jsonl"}


if __name__ == "__main__":
    main("The evaluation engine, one worker process, embedded stack", measure)
