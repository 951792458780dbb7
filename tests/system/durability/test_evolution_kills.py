"""kill -9 while a run evolves: explorations, classified failures and verdicts are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS, ended_alike
from tests.support.optimizer_specs import EVOLVING

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int) -> dict[str, Any]:
    return {**EVOLVING, "name": "evolving", "execution": {"concurrent_samples": 6}, "seed": seed}


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_evolution_ends_like_an_undisturbed_one(
    seed: int, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    ended = await ended_alike(_spec(seed), f"evolving-{seed}", seed, unserved_stack, tmp_path)
    assert ended.undisturbed["rounds"] >= 2
    assert ended.disturbed["confirmation"] == ended.undisturbed["confirmation"]
