"""kill -9 while a user's optimizer searches: its decisions are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS, ended_alike

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int) -> dict[str, Any]:
    return {
        "name": "own",
        "configuration": {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000}},
        "target": {"kind": "python", "ref": "plugged:logged_hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "python", "ref": "own_optimizers:Stepper", "candidates_per_round": 2},
        "stop": {"max_rounds": 8, "no_improvement": 0},
        "execution": {"concurrent_samples": 6},
        "seed": seed,
    }


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_search_ends_like_an_undisturbed_one(seed: int, unserved_stack: StackAddresses, tmp_path: Path) -> None:
    await ended_alike(_spec(seed), f"own-{seed}", seed, unserved_stack, tmp_path)
