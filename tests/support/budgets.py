"""Budgets of runs in the store: opened at random, watched, and what was used of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from store.connection import Database
from tests.support.store_examples import ExampleRun
from workflows.model.run.amounts import Amount
from workflows.model.spec.execution import Budget

EACH = Amount(tokens=100, cost=0.01)
"""The most that one call takes, where it is stated."""


@dataclass
class Used:
    spent: Amount
    lost: Amount
    held: Amount
    exceeded: int

    @property
    def all(self) -> Amount:
        return self.spent + self.lost + self.held


async def used(database: Database, run_id: str) -> Used:
    """All that counts against the budget, at one moment."""
    async with database.connection() as connection:
        row = await connection.fetchrow(
            """
            SELECT b.spent_samples + coalesce(sum(l.spent_samples), 0)::bigint,
                   b.spent_tokens + coalesce(sum(l.spent_tokens), 0)::bigint,
                   b.spent_cost + coalesce(sum(l.spent_cost), 0),
                   b.lost_samples + coalesce(sum(l.lost_samples), 0)::bigint,
                   b.lost_tokens + coalesce(sum(l.lost_tokens), 0)::bigint,
                   b.lost_cost + coalesce(sum(l.lost_cost), 0),
                   coalesce(sum(l.held_samples), 0)::bigint, coalesce(sum(l.held_tokens), 0)::bigint,
                   coalesce(sum(l.held_cost), 0), b.exceeded
            FROM budgets b LEFT JOIN budget_leases l USING (run_id) WHERE run_id = $1 GROUP BY b.run_id
            """,
            run_id,
        )
    assert row is not None
    return Used(Amount(*row[:3]), Amount(*row[3:6]), Amount(*row[6:9]), row[9])


def covers(budget: Budget, amount: Amount) -> bool:
    within = [
        not budget.samples or amount.samples <= budget.samples,
        not budget.tokens or amount.tokens <= budget.tokens,
        not budget.cost or amount.cost <= budget.cost * (1 + 1e-6),
    ]
    return all(within)


def random_budget(random: Random) -> Budget:
    """At least one limit, of some 20 to 120 calls."""
    calls = random.randint(20, 120)
    kinds = random.sample(["samples", "tokens", "cost"], random.randint(1, 3))
    return Budget(
        samples=calls if "samples" in kinds else 0,
        tokens=int(calls * EACH.tokens * random.uniform(0.5, 1.2)) if "tokens" in kinds else 0,
        cost=calls * EACH.cost * random.uniform(0.5, 1.2) if "cost" in kinds else 0.0,
    )


async def opened(example: ExampleRun, budget: Budget, **changes: Any) -> ExampleRun:
    run = await example.open(budget=budget.model_dump(mode="json", exclude_defaults=True), **changes)
    await run.store.trials.begin(run.trial())
    return run


@contextlib.asynccontextmanager
async def watched(database: Database, run_id: str, limit: Callable[[], Budget]) -> AsyncIterator[None]:
    """Look at the account again and again: at no moment may more be taken than the limit."""
    over: list[Amount] = []

    async def look() -> None:
        while True:
            amount = (await used(database, run_id)).all
            if not covers(limit(), amount):
                over.append(amount)
            await asyncio.sleep(0.002)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait({looking})
    assert not over, f"{over[0]} of {limit()}"
