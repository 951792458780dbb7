"""The rule task as Ratchet's optimizers do it, through the optimizer kit: one JSON job in, one JSON answer out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from random import Random
from typing import Any

from benchmarks.quality_world import RuleWorld, Task
from clients.testing import Simulated, World, simulate
from ratchet import Record, Sample
from ratchet._formats.canonical import content_hash, derive_seed


def run(world: RuleWorld, seed: int, budget: int, optimizer: Mapping[str, Any]) -> Simulated:
    """One run of so many target calls. Answers have noise of their own for every prompt, sample and replicate."""

    def target(configuration: Mapping[str, Any], sample: Sample, replicate: int) -> tuple[float, str]:
        split, place = sample.input
        noise = Random(derive_seed(seed, content_hash(dict(configuration)), split, place, replicate))
        return world.call(configuration["prompt"], split, place, noise)

    def reflect(current: Mapping[str, Any], records: list[Record], factors: list[str], seed: int) -> Mapping[str, Any]:
        failed = [record.feedback for record in records if record.score < 1]
        return {"prompt": world.reflect(current["prompt"], failed, Random(seed))}

    request = {
        "configuration": {"prompt": {"value": world.baseline, "change": "text"}},
        "optimizer": optimizer,
        "budget": {"samples": budget},
        "stop": {"max_rounds": 100_000, "no_improvement": 0},
        "seed": seed,
    }
    splits = {split: [(split, place) for place in range(len(needs))] for split, needs in world.needs.items()}
    return simulate(request, World(target=target, samples=splits["validation"], train=splits["train"], propose=reflect))


def answered(job: dict[str, Any]) -> dict[str, list[list[dict[str, float]]]]:
    """For every optimizer, seed by seed, what it reached at every budget, and what that took."""
    found: dict[str, list[list[dict[str, float]]]] = {}
    for name, optimizer in job["optimizers"].items():
        for seed in job["seeds"]:
            world = RuleWorld(seed, Task(**job["task"]))
            runs = [run(world, seed, budget, optimizer) for budget in job["budgets"]]
            found.setdefault(name, []).append([_told(world, simulated) for simulated in runs])
    return found


def _told(world: RuleWorld, simulated: Simulated) -> dict[str, float]:
    if simulated.status != "completed":
        raise RuntimeError(f"a simulated run {simulated.status}: {simulated.message}")
    return {
        "truth": world.truth(simulated.best_configuration["prompt"]),
        "promised": simulated.best_score or 0.0,
        "calls": simulated.calls,
        "proposals": simulated.proposals,
        "overhead_seconds": simulated.overhead_seconds,
    }


if __name__ == "__main__":
    print("\n" + json.dumps(answered(json.load(sys.stdin))))
