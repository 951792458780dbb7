"""kill -9 while `reflect` or `gepa` runs: parts, leaders and drawn parents are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS, ended_alike
from tests.support.optimizer_specs import PUBLISHED, REFLECTING

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Without a budget: what is lost in a kill counts against it, so that there is less to search with."""
    rounds = {"max_rounds": 3, "no_improvement": 0}
    return {
        **REFLECTING,
        "optimizer": options,
        "stop": rounds,
        "budget": {},
        "execution": {"concurrent_samples": 6},
        "seed": seed,
    }


@pytest.mark.parametrize("options", [{**REFLECTING["optimizer"], "steps_per_round": 3}, PUBLISHED], ids=["reflect", "gepa"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_reflection_ends_like_an_undisturbed_one(
    seed: int, options: dict[str, Any], unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    ended = await ended_alike(
        _spec(seed, options), f"{options.get('name', 'reflect')}-killed-{seed}", seed, unserved_stack, tmp_path
    )
    assert ended.undisturbed["rounds"] >= 1
