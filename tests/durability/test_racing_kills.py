"""kill -9 while candidates race: the same looks, the same stops and the same winner as in an undisturbed run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest

from activities.store.connection import Database
from clients.stack import StackAddresses, embedded_stack
from tests.durability.test_kills import SEEDS, calls_begun, disturb, everything_decided, running
from tests.end_to_end.test_racing import coins
from tests.replaying import nothing_differs

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
    connection = await asyncpg.connect(stack.database_url)
    try:
        columns = "candidate_id, stopped_early, looks::text, judged::text, evidence::text, total"
        rows = await connection.fetch(f"SELECT {columns} FROM trials WHERE run_id = $1", run_id)
        return sorted(tuple(row) for row in rows)
    finally:
        await connection.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_race_ends_like_an_undisturbed_one(seed: int, tmp_path: Path) -> None:
    run_id = f"racing-{seed}"
    async with embedded_stack(tmp_path / "reference", ui=False) as stack, running(stack, tmp_path / "reference") as parts:
        client, _, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed), id=run_id, task_queue="optimization")
        expected_result = await handle.result()
        expected = await everything_decided(stack, run_id)
        races = await _races(stack, run_id)
        in_all = calls_begun(calls)
    stopped = [row for row in races if row[1] is not None]
    assert len(stopped) >= 2
    async with embedded_stack(tmp_path / "disturbed", ui=False) as stack, running(stack, tmp_path / "disturbed") as parts:
        client, worker, calls = parts
        handle = await client.start_workflow("OptimizationWorkflow", _spec(seed), id=run_id, task_queue="optimization")
        killed = await disturb(stack, worker, calls, run_id, Random(seed), in_all)
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await everything_decided(stack, run_id)
        assert await _races(stack, run_id) == races
        database = await Database.open(stack.database_url)
        try:
            await nothing_differs(database, run_id)
        finally:
            await database.close()
        extra = calls_begun(calls) - in_all
    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ after killing {killed.victims}"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert 0 <= extra <= killed.in_flight, f"{extra} calls repeated, {killed.in_flight} in flight, {killed.victims}"
