"""kill -9 while a run searches values or examples: its suggestions are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS, ended_alike
from tests.support.optimizer_specs import BAKING, TEACHING

pytestmark = pytest.mark.timeout(300)


SPECS: dict[str, dict[str, Any]] = {
    "search": {**BAKING, "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(12)], "splits": "none"}},
    "few_shot": TEACHING,
}


def _spec(name: str, seed: int) -> dict[str, Any]:
    return {
        **SPECS[name],
        "execution": {"concurrent_samples": 8, "max_rounds_per_execution": 4},
        "stop": {"max_rounds": 9},
        "seed": seed,
    }


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SPECS)
async def test_a_killed_search_ends_like_an_undisturbed_one(
    name: str, seed: int, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    ended = await ended_alike(_spec(name, seed), f"{name}-{seed}", seed, unserved_stack, tmp_path)
    assert ended.undisturbed["rounds"] == 9
    assert ended.disturbed["importances"] == ended.undisturbed["importances"]
    assert ended.disturbed["confirmation"] == ended.undisturbed["confirmation"]
