"""Runs of one team that share its month."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from clients.demo.model_server import SimulatedModel
from store.read.access.team_months import TeamMonthReader, TeamMonthRow
from store.write.access.teams import Teams
from store.write.limits.team_budgets import TeamBudgets
from tests.support.chatting_specs import chatting
from tests.support.engines import Engines
from tests.support.hill_specs import ENDLESS
from tests.support.replaying import nothing_differs
from tests.support.run_views import failure_of, rows
from workflows.model.run.amounts import NOTHING, Amount

Spec = Callable[..., dict[str, Any]]


async def team_with(engines: Engines, team: str, limits: Amount) -> str:
    await Teams(engines.database).create(team, [], "a test")
    await TeamBudgets(engines.database).set(team, limits, "a test")
    return team


async def started(engines: Engines, team: str, spec: dict[str, Any]) -> Any:
    run_id = f"of-{team}-{spec['name']}"
    assert await Teams(engines.database).claim_run(run_id, team)
    return await engines.start(spec, run_id=run_id)


async def month_of(engines: Engines, team: str) -> TeamMonthRow:
    [month] = await TeamMonthReader(engines.database).now(team)
    return month


async def test_two_runs_with_targets_judges_and_proposers_stay_within_the_month_of_their_team(
    engines: Engines, server: SimulatedModel
) -> None:
    """Neither has a budget of its own. What was paid is counted by the endpoint itself."""
    server.reset()
    budget = 0.6
    team = await team_with(engines, "sharers", Amount(cost=budget))
    handles = [await started(engines, team, chatting(server, name=name, seed=n)) for n, name in enumerate(("one", "two"))]
    told = []
    for handle in handles:
        try:
            result = await handle.result()
        except Exception:
            failure = await failure_of(handle)
            told.append((failure.type, failure.message))
        else:
            told.append((result["stop_reason"], result["message"]))
            await nothing_differs(engines.database, handle.id)
    for reason, message in told:
        assert reason == "cost_budget"
        assert message.startswith(f"Cost budget exhausted: team {team} has ") and f" of {budget} left for 20" in message
    stats = server.stats()
    paid = (10 * stats["prompt_tokens"] + 100 * stats["completion_tokens"]) / 1e6
    month = await month_of(engines, team)
    assert 0 < paid <= month.spent.cost * (1 + 1e-9) <= budget * (1 + 1e-6)
    accounts = [(await rows(engines, "SELECT * FROM budgets", handle.id))[0] for handle in handles]
    assert all(account["spent_cost"] > 0 for account in accounts)
    assert month.spent.cost == pytest.approx(sum(account["spent_cost"] + account["lost_cost"] for account in accounts))
    assert month.set_aside.cost == 0


async def test_the_first_budget_of_a_team_holds_for_runs_that_are_under_way(engines: Engines, spec: Spec) -> None:
    team = await team_with(engines, "late", NOTHING)
    items = {"items": [{"id": f"s{n}", "input": n} for n in range(200)], "splits": "none"}
    parts = {"dataset": items, "stop": ENDLESS, "execution": {"concurrent_samples": 3}}
    slow = {"kind": "python", "ref": "plugged:slow_hill"}
    handles = [await started(engines, team, spec(name=name, target=slow, **parts)) for name in ("first", "second")]

    async def answered() -> list[int]:
        return [len(await rows(engines, "SELECT 1 FROM outcomes", handle.id)) for handle in handles]

    async with asyncio.timeout(60):
        while min(await answered()) < 20:
            await asyncio.sleep(0.02)
    await TeamBudgets(engines.database).set(team, Amount(samples=90), "a test")
    for handle in handles:
        assert (await failure_of(handle)).type == "sample_budget"
    month = await month_of(engines, team)
    assert month.spent.samples == 90 - (month.left.samples or 0)
    assert month.left.samples in range(8)
