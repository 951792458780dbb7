"""What the real engines take for themselves in a whole search: Temporal, PostgreSQL, a worker, and a target of no time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.figures import Bench, Figure, bench_stack
from benchmarks.plugins import rule_plugins


def spec(optimizer: Mapping[str, Any], budget: int) -> dict[str, Any]:
    return {
        "name": f"rules-{budget}",
        "configuration": {"prompt": {"value": rule_plugins.WORLD.baseline, "change": "text"}},
        "target": {"kind": "python", "ref": "rule_plugins:answer"},
        "dataset": {"items": rule_plugins.items(), "splits": {"train": 0.5, "validation": 0.5}},
        "scorers": [{"kind": "python", "name": "passes", "ref": "rule_plugins:passes"}],
        "objective": {"metric": "passes"},
        "optimizer": {**optimizer, "proposer": {"kind": "python", "ref": "rule_plugins:reflect", "examples": 20}},
        "budget": {"samples": budget},
        "stop": {"max_rounds": 100_000, "no_improvement": 0},
        "seed": 7,
    }


async def per_evaluation(optimizer: Mapping[str, Any], budgets: Sequence[int]) -> list[Figure]:
    """Milliseconds of whole runs per call of the target, and how they grow."""
    async with bench_stack() as bench:
        await _measured(bench, optimizer, min(budgets) // 2)
        each = [await _measured(bench, optimizer, budget) for budget in budgets]
    growth = math.log(each[-1] / each[0]) / math.log(budgets[-1] / budgets[0])
    return [
        *(
            Figure(f"real engines: per evaluation, {budget} evaluations", ms, 5.0, "ms")
            for budget, ms in zip(budgets, each, strict=True)
        ),
        Figure("real engines: per evaluation, grows to the power of", growth, 1.0),
    ]


async def _measured(bench: Bench, optimizer: Mapping[str, Any], budget: int) -> float:
    began = time.perf_counter()
    result = await bench.run(f"rules-{budget}", spec(optimizer, budget))
    wall = time.perf_counter() - began
    calls = int(result["spend"]["samples"])
    assert budget - 200 < calls <= budget, f"{calls} of {budget} calls were made: {result['message']}"
    return 1000 * wall / calls
