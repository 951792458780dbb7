"""An endpoint that takes 200 requests a second and answers 429 beyond, called by one worker and by three.

    python -m benchmarks.rate_limit [--quick]

First the limit is stated in the spec, then the workers are told nothing and learn it from the endpoint's complaints. Either way
they share it through PostgreSQL.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from benchmarks.figures import Figure, main
from benchmarks.processes import BenchServers, bench_servers
from clients.demo.models import ECHO

PER_SECOND = 200
LATENCY_MS = 50
CALLS, QUICK_CALLS = 3000, 1000


async def measure(quick: bool) -> list[Figure]:
    calls = QUICK_CALLS if quick else CALLS
    figures: list[Figure] = []
    async with bench_servers() as servers:
        for workers, stated in ((1, True), (3, True), (1, False), (3, False)):
            async with AsyncExitStack() as exits:
                for _ in range(workers):
                    await exits.enter_async_context(servers.worker())
                with simulated(per_second=PER_SECOND) as url:
                    run_id = f"limited-{workers}-{stated}"
                    seconds = await measured_run(servers, run_id, url, calls, stated=stated)
                    statuses = stats(url)["by_status"]
            throttled = statuses.get("429", 0) / sum(statuses.values())
            who = "one worker" if workers == 1 else f"{workers} workers"
            how = who if stated else f"{who}, told no limit"
            figures += [
                Figure(f"wall over the limit's own time, {calls} calls, {how}", seconds * PER_SECOND / calls, 1.15),
                # What is not known is learned at the beginning, however few calls follow.
                Figure(f"share of calls answered 429, {how}", throttled, 0.02 if stated else 0.02 * CALLS / calls),
            ]
    return figures


async def measured_run(servers: BenchServers, run_id: str, url: str, calls: int, *, stated: bool) -> float:
    """Seconds from the first call's start to the last one's end, as the stored answers tell."""
    limits = {ECHO: {"requests_per_minute": PER_SECOND * 60}} if stated else {}
    await servers.run(run_id, chat_spec(url, calls, 64, rate_limits=limits))
    seconds: float = await servers.fetchval(
        "SELECT extract(epoch FROM max(created_at) - min(created_at - latency_ms * interval '1 ms'))::float8"
        " FROM outcomes WHERE run_id = $1",
        run_id,
    )
    return seconds


def chat_spec(url: str, calls: int, concurrent: int, **execution: Any) -> dict[str, Any]:
    """One trial of so many chat calls."""
    return {
        "name": "chat",
        "configuration": {"system": {"value": "Repeat.", "change": "text"}},
        "target": {
            "kind": "chat",
            "model": ECHO,
            "base_url": f"{url}/v1",
            "messages": [{"role": "system", "content": "{{factors.system}}"}, {"role": "user", "content": "{{input.text}}"}],
        },
        "dataset": {
            "items": [{"id": f"s{n}", "input": {"text": f"t{n}"}, "expected": f"t{n}"} for n in range(calls)],
            "splits": "none",
        },
        "objective": {"metric": "exact"},
        "optimizer": {"name": "refine", "proposer": {"kind": "noop"}},
        "budget": {"trials": 1},
        "execution": {"concurrent_samples": concurrent, **execution},
    }


@contextmanager
def simulated(latency_ms: int = LATENCY_MS, per_second: int | None = None) -> Iterator[str]:
    """The endpoint, in a process of its own; it ends when its standard input is closed."""
    command = ["-m", "clients.demo", "--latency-ms", str(latency_ms)]
    command += ["--requests-per-second", str(per_second)] if per_second is not None else []
    with subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        ready = re.search(r'"url": "([^"]+)"', process.stdout.readline())
        assert ready is not None
        try:
            yield ready[1]
        finally:
            process.terminate()


def stats(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/simulate/stats", timeout=10) as answer:
        told: dict[str, Any] = json.load(answer)
    return told


if __name__ == "__main__":
    main(f"An endpoint that takes {PER_SECOND} requests a second", measure)
