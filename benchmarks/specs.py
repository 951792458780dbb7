"""The spec that benchmarks vary: a pure optimizer over a structured factor with room for thousands of candidates."""

from __future__ import annotations

from typing import Any


def spec(target: str, samples: int, rounds: int, candidates: int = 1, **parts: Any) -> dict[str, Any]:
    """All samples are searched on: what is measured are trials, and a confirmation would be two more."""
    made: dict[str, Any] = {
        "name": "bench",
        "configuration": {
            name: {"value": 500_000, "change": "structured", "type": "integer", "min": 0, "max": 1_000_000, "step": 17}
            for name in "abcdefgh"
        },
        "target": {"kind": "python", "ref": f"bench_plugins:{target}"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(samples)]},
        "scorers": [{"kind": "python", "name": "value", "ref": "bench_plugins:value"}],
        "objective": {"metric": "value"},
        "optimizer": {"proposer": {"kind": "step"}, "parent": "last", "candidates_per_round": candidates},
        "stop": {"max_rounds": rounds, "no_improvement": 0},
        "execution": {"concurrent_samples": 16, "concurrent_trials": candidates},
        "seed": 7,
    } | parts
    return {**made, "dataset": {**made["dataset"], "splits": "none"}}
