"""kill -9 while candidates race: the same looks, the same stops and the same winner as in an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clients.embedded.stack import StackAddresses
from store.connection import Database
from tests.support.coin_runs import coins
from tests.support.killed_runs import SEEDS, ended_alike
from tests.support.replaying import nothing_differs

pytestmark = pytest.mark.timeout(300)


def _spec(seed: int) -> dict[str, Any]:
    """Losers, a winner that is measured in full after its race, and one that is neither."""
    return coins(
        0.05,
        0.3,
        0.55,
        0.95,
        target={"kind": "python", "ref": "plugged:logged_coin"},
        judgement={"racing": {"block": 12}, "accept": "better"},
        replicates=2,
        execution={"concurrent_samples": 8},
        seed=seed,
    )


async def _races(stack: StackAddresses, run_id: str) -> list[tuple[Any, ...]]:
    """All races, which follow from what is stored."""
    database = await Database.open(stack.database_url)
    try:
        await nothing_differs(database, run_id)
        columns = "candidate_id, stopped_early, looks::text, judged::text, evidence::text, total"
        async with database.connection() as connection:
            rows = await connection.fetch(f"SELECT {columns} FROM trials WHERE run_id = $1", run_id)
        return sorted(tuple(row) for row in rows)
    finally:
        await database.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_race_ends_like_an_undisturbed_one(seed: int, unserved_stack: StackAddresses, tmp_path: Path) -> None:
    ended = await ended_alike(_spec(seed), f"racing-{seed}", seed, unserved_stack, tmp_path, read=_races)
    assert len([race for race in ended.more if race[1] is not None]) >= 2
