"""What the page waits for: pages of a list of 5,000 runs, and of a run of 100,000 answers, over HTTP.

    python -m benchmarks.pages [--quick]

Two runs are made by a worker; the small one is copied until there are 5,000, the large one has 10 trials of 10,000 samples
(`--quick`: 2,000). `ratchet serve` answers, as it does for the page: reading, JSON and compression count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import httpx

from benchmarks.events import serving
from benchmarks.figures import Figure, main
from benchmarks.processes import bench_servers
from benchmarks.specs import spec
from store.connection import Database

SMALL, LARGE, OTHER = "pages-small", "pages-large", "pages-other"
RUNS = 5_000
TRIALS = 10
ASKED = 100
SLOWEST_MS = 100.0
COPIED = ("runs", "suites", "suite_samples", "candidates", "trials", "rounds")

Question = Callable[[], tuple[str, list[tuple[str, Any]]]]


async def measure(quick: bool) -> list[Figure]:
    samples = 2_000 if quick else 10_000
    async with bench_servers() as servers:
        async with servers.worker():
            await servers.run(SMALL, spec("instant", 5, rounds=2))
            servers.write_dataset("pages.jsonl", samples)
            read = {"path": "pages.jsonl"}
            await servers.run(LARGE, spec("instant", samples, rounds=TRIALS - 1, dataset=read))
            await servers.run(OTHER, spec("instant", samples, rounds=1, dataset=read))
        database = await Database.open(servers.stack.database_url)
        try:
            await copy_runs(database, RUNS - 3)
            async with database.connection() as connection:
                found = await connection.fetch("SELECT candidate_id FROM trials WHERE run_id = $1 ORDER BY round", LARGE)
                answers = await connection.fetchval("SELECT count(*) FROM answers WHERE run_id = $1", LARGE)
                listed = await connection.fetchval("SELECT count(*) FROM runs")
        finally:
            await database.close()
        candidates = [row["candidate_id"] for row in found]
        async with serving(servers) as server, httpx.AsyncClient(base_url=server.url, timeout=600) as http:
            questions = questions_of(candidates, samples, listed)
            return [
                await asked(http, f"{name}, of {told}", question)
                for name, told, question in questions_told(questions, listed, answers)
            ]


def questions_told(questions: dict[str, Question], runs: int, answers: int) -> list[tuple[str, str, Question]]:
    return [
        (name, f"{runs:,} runs" if "list of runs" in name else f"a run of {answers:,} answers", question)
        for name, question in questions.items()
    ]


def questions_of(candidates: list[str], samples: int, runs: int) -> dict[str, Question]:
    """What the page asks, at random places."""
    chosen = random.Random(7)
    of_run = f"/v1/private/optimizations/{LARGE}"

    def matrix(**more: Any) -> tuple[str, list[tuple[str, Any]]]:
        query = {"limit": 50, "skip": chosen.randrange(samples - 50), **more}
        return f"{of_run}/matrix", list(query.items())

    return {
        "a page of the list of runs": lambda: (
            "/v1/private/optimizations",
            [("limit", 100), ("offset", chosen.randrange(runs - 100))],
        ),
        "a search in the list of runs": lambda: (
            "/v1/private/optimizations",
            [("limit", 100), ("search", f"-{chosen.randrange(runs - 3)}")],
        ),
        "a page of the answers of a trial": lambda: (
            f"{of_run}/trials/{chosen.choice(candidates)}/items",
            [("limit", 50), ("offset", chosen.randrange(samples - 50))],
        ),
        "a page of the matrix": matrix,
        "a page of the matrix, filtered": lambda: matrix(only="disagree", skip=0),
        "a page of the matrix, two runs": lambda: matrix(other=f"{OTHER}/baseline"),
        "an opened answer of the matrix": lambda: (
            f"{of_run}/matrix/answers",
            [("position", chosen.randrange(samples)), *(("candidate", one) for one in candidates[:2])],
        ),
        "a page of two trials compared": lambda: (
            f"{of_run}/comparison",
            [
                ("candidate", candidates[-1]),
                ("against", candidates[0]),
                ("limit", 20),
                ("offset", chosen.randrange(samples - 20)),
            ],
        ),
    }


async def asked(http: httpx.AsyncClient, name: str, question: Question) -> Figure:
    waits = []
    for _ in range(ASKED):
        path, query = question()
        began = time.perf_counter()
        answer = await http.get(path, params=query)
        waits.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    waits.sort()
    return Figure(f"{name}, p95", waits[int(0.95 * ASKED)], SLOWEST_MS, "ms")


async def copy_runs(database: Database, count: int) -> None:
    """The small run under other names, with all that lists read of it."""
    async with database.transaction() as connection:
        for table in COPIED:
            await connection.execute(
                f"INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object('run_id', 'pages-' || n))).*"
                f" FROM {table} t, generate_series(1, $2) n WHERE run_id = $1",
                SMALL,
                count,
                timeout=float("inf"),
            )
        await connection.execute("INSERT INTO budgets (run_id) SELECT 'pages-' || n FROM generate_series(1, $1) n", count)
    async with database.connection() as connection:
        for table in (*COPIED, "answers", "scores"):
            await connection.execute(f"VACUUM ANALYZE {table}", timeout=float("inf"))


if __name__ == "__main__":
    main("Pages of long lists", measure)
