"""A team's month that another run has taken for itself, as long as a block lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from activities.budget.lease import fresh_nonce
from store.budget_leases import LeaseBalance, LeaseKey, LeaseRequest
from store.connection import Database
from store.write.access.teams import Teams
from store.write.limits.budgets import Budgets
from store.write.limits.team_budgets import TeamBudgets
from store.write.repositories import Store
from tests.support.store_examples import ExampleRun
from workflows.model.run.amounts import Amount


@asynccontextmanager
async def taken_month(database: Database, team: str, samples: int) -> AsyncIterator[None]:
    """A team may make so many calls, and a run of it has set all of them aside; in the end it gives them back."""
    await Teams(database).create(team, [], "a test")
    await TeamBudgets(database).set(team, Amount(samples=samples), "a test")
    taker = f"taker-of-{team}"
    await Teams(database).claim_run(taker, team)
    await ExampleRun(Store(database), database, taker).open()
    key, budgets = LeaseKey(taker, "taker", 1, fresh_nonce(), "baseline", f"{taker}/r0"), Budgets(database)
    leased = await budgets.lease(key, LeaseBalance(), LeaseRequest(Amount(samples), Amount(samples)))
    assert leased.granted.samples == samples

    async def keep() -> None:
        while True:
            await budgets.write_balance(key, LeaseBalance(held=Amount(samples)))
            await asyncio.sleep(1)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        await budgets.close_lease(key, LeaseBalance())
