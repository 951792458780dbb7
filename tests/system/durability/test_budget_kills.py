"""A run on a budget, its worker killed with -9 again and again: what was really paid stays within the budget.

Counted by the target's own log, which notes a call before anything else happens, times its price.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest

from clients.embedded.stack import StackAddresses
from store.connection import Database
from store.write.access.teams import Teams
from store.write.limits.team_budgets import TeamBudgets
from tests.support.killed_runs import spec
from tests.support.worker_processes import calls_begun, running, until
from workflows.model.run.amounts import Amount

SEEDS = range(int(os.environ.get("RATCHET_KILL_SEEDS", "1")))
KILLS = 3
PRICE = 0.001
"""Of one call of `plugged:logged_hill`."""

CALLS = 300

pytestmark = pytest.mark.timeout(300)

BUDGETS: dict[str, dict[str, Any]] = {
    "cost": {"cost": CALLS * PRICE},
    "samples": {},
}
"""Calls are limited by the month of the run's team, money by the run's own budget."""


def budgeted(seed: int, budget: dict[str, Any]) -> dict[str, Any]:
    target = {"kind": "python", "ref": "plugged:logged_hill", "at_most": {"cost": PRICE}}
    endless = {"max_rounds": 100, "no_improvement": 0}
    return {**spec(seed), "target": target, "budget": budget, "stop": endless, "execution": {"concurrent_samples": 6}}


async def account(stack: StackAddresses, run_id: str) -> dict[str, Any]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        row = await connection.fetchrow("SELECT * FROM budgets WHERE run_id = $1", run_id)
        leases = await connection.fetch("SELECT * FROM budget_leases WHERE run_id = $1", run_id)
    finally:
        await connection.close()
    assert row is not None
    assert leases == [], "something is still set aside although the run is over"
    return dict(row)


async def give_to_team(stack: StackAddresses, team: str, run_id: str) -> None:
    database = await Database.open(stack.database_url)
    try:
        await Teams(database).create(team, [], "a test")
        await TeamBudgets(database).set(team, Amount(samples=CALLS), "a test")
        assert await Teams(database).claim_run(run_id, team)
    finally:
        await database.close()


async def month_of_team(stack: StackAddresses, team: str) -> dict[str, Any]:
    connection = await asyncpg.connect(stack.database_url)
    try:
        row = await connection.fetchrow("SELECT * FROM team_months WHERE team = $1", team)
    finally:
        await connection.close()
    return {} if row is None else dict(row)


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("seed", SEEDS)
async def test_kills_do_not_make_a_run_overshoot_its_budget(
    seed: int, kind: str, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    random = Random(seed)
    run_id = f"budgeted-{kind}-{seed}"
    if kind == "samples":
        await give_to_team(unserved_stack, f"crew-{seed}", run_id)
    async with running(unserved_stack, tmp_path) as parts:
        client, worker, calls = parts
        given = budgeted(seed, BUDGETS[kind])
        handle = await client.start_workflow("OptimizationWorkflow", given, id=run_id, task_queue="optimization")
        for point in sorted(random.sample(range(10, CALLS // 2), KILLS)):
            await until(lambda point=point: calls_begun(calls) >= point)  # type: ignore[misc]
            await worker.kill()
            await worker.start()
        async with asyncio.timeout(120):
            result = await handle.result()
        found = await account(unserved_stack, run_id)
        month = await month_of_team(unserved_stack, f"crew-{seed}")
    made = calls_begun(calls)
    assert made <= CALLS, f"{made} calls were made, {CALLS} were allowed"
    assert result["stop_reason"] == f"{kind.removesuffix('s')}_budget"
    assert found["lost_samples"] > 0, "no kill met a call in flight"
    assert made <= found["spent_samples"] + found["lost_samples"] <= CALLS
    if kind != "samples":
        assert found["spent_cost"] + found["lost_cost"] >= made * PRICE - 1e-9
    if kind == "samples":
        assert (month["spent_samples"], month["lost_samples"]) == (found["spent_samples"], found["lost_samples"])
        assert result["message"].startswith(f"Sample budget exhausted: team crew-{seed} has ")
    assert result["lost"]["samples"] == found["lost_samples"]
    print(f"{kind}, seed {seed}: {made} of {CALLS} calls made, {found['lost_samples']} counted as lost in {KILLS} kills")
