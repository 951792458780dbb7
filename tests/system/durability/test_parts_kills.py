"""kill -9 while candidates are measured in parts: nothing is paid for twice, and the decisions are the undisturbed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from tests.support.killed_runs import SEEDS, ended_alike
from tests.support.optimizer_in_parts import spec

WORKER = "tests.support.optimizer_in_parts"

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int) -> dict[str, Any]:
    return spec(target={"kind": "python", "ref": "plugged:logged_hill"}, execution={"concurrent_samples": 6}, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_run_killed_between_parts_ends_like_an_undisturbed_one(
    seed: int, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    ended = await ended_alike(_spec(seed), f"in-parts-{seed}", seed, unserved_stack, tmp_path, WORKER)
    assert ended.calls == ended.undisturbed["spend"]["samples"]
