"""Runs whose samples are answered in batches, and the same runs asked at once: a model that climbs."""

from __future__ import annotations

from typing import Any

from tests.support.batch_server import BatchServer
from tests.support.engines import Engines

SAMPLES = 12
PRICE = {"input": 1000.0, "output": 2000.0}
COST_OF_AN_ANSWER = (10 * 1000 + 2000) / 1_000_000


def climber(body: dict[str, Any]) -> str:
    """The better, the nearer to 700."""
    x, n = body["messages"][-1]["content"].split()
    return "yes" if 1 - abs(int(x) - 700) / 1000 > 0.25 + int(n) / 20 else "no"


def climbing(server: BatchServer, mode: str = "batch", **parts: Any) -> dict[str, Any]:
    """Three rounds of two candidates over a dozen samples."""
    execution = {"mode": mode, "batches": {"poll": "50ms", "longest_poll": "200ms"}} | parts.pop("execution", {})
    return {
        "name": f"climbing-{mode}",
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 100}},
        "target": {
            "kind": "chat",
            "model": "climber",
            "base_url": server.url,
            "messages": [{"role": "user", "content": "{{factors.x}} {{input}}"}],
            "parameters": {"max_tokens": 10},
        },
        "prices": {"climber": PRICE},
        "dataset": {"items": [{"id": f"s{n}", "input": n, "expected": "yes"} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "exact"}],
        "objective": "exact",
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}, "candidates_per_round": 2},
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "execution": execution,
        "seed": 1,
    } | parts


async def rows(engines: Engines, table: str, what: str, run_id: str) -> list[Any]:
    """What is stored of a run, in an order that its rows alone decide."""
    async with engines.database.connection() as connection:
        found = await connection.fetch(f"SELECT {what} FROM {table} WHERE run_id = $1", run_id)
    return sorted((tuple(row) for row in found), key=repr)


async def decided(engines: Engines, run_id: str) -> dict[str, Any]:
    """What a run measured and decided, without what it took."""
    return {
        "trials": await rows(engines, "trials", "candidate_id, config_hash, status, score, passed, total, coverage", run_id),
        "rounds": await rows(engines, "rounds", "round, best_candidate_id, best_score, best_so_far_id, stop_reason", run_id),
        "answers": await rows(
            engines,
            "answers",
            "config_hash, (item_hash, replicate)::text, target, status, output::text, error, error_class, tokens, trace::text",
            run_id,
        ),
    }
