"""A team's month holds over all of its runs: random shards of several runs over real PostgreSQL, with workers that die.

`RATCHET_BUDGET_SEEDS` sets how many seeds are tried (4 by default).
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from activities.budget.lease import fresh_nonce
from store.budget_leases import LeaseBalance, LeaseKey, LeaseRequest
from store.connection import Database
from store.read.access.team_months import TeamMonthReader
from store.write.access.teams import Teams
from store.write.limits.budgets import Budgets
from store.write.limits.team_budgets import TeamBudgets
from store.write.repositories import Store
from tests.support.budgets import EACH, covers, opened, random_budget, used
from tests.support.leased_work import MortalBudgets, Shard, Workers, World
from tests.support.store_examples import ExampleRun
from workflows.model.run.amounts import NOTHING, Amount, total
from workflows.model.spec.execution import Budget
from workflows.model.spec.targets.at_most import AtMost

SEEDS = range(int(os.environ.get("RATCHET_BUDGET_SEEDS", "4")))
STATED = AtMost(tokens=EACH.tokens, cost=EACH.cost)
NOVEMBER, DECEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)


async def given(database: Database, limits: Budget, team: str = "crew") -> None:
    await Teams(database).create(team, [], "a test")
    await TeamBudgets(database).set(team, Amount(limits.samples, limits.tokens, limits.cost), "a test")


async def of_crew(database: Database, run_id: str, budget: Budget | None = None, **changes: Any) -> ExampleRun:
    assert await Teams(database).claim_run(run_id, "crew")
    return await opened(ExampleRun(Store(database), database, run_id), budget or Budget(), **changes)


async def months(database: Database) -> dict[str, Amount]:
    """All that counts, by month."""
    rows = await TeamMonthReader(database).of_team("crew")
    return {row.month: Amount(**row.spent.model_dump()) + Amount(**row.set_aside.model_dump()) for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_month_is_never_overshot_by_runs_side_by_side_and_workers_that_die(seed: int, database: Database) -> None:
    """Runs with and without a budget of their own, each with several shards; at no moment is more taken than the team has."""
    random = Random(seed)
    limits = random_budget(random)
    await given(database, limits)
    own = [Budget(), random_budget(random), Budget(samples=10_000)]
    runs = [await of_crew(database, f"run-{n}", budget) for n, budget in enumerate(own)]
    world = World(random, failing=random.choice([0.0, 0.2]), known=True)
    shards = [Shard(run, world, f"shard-{n}", random.randint(20, 60), STATED) for run in runs for n in range(2)]
    every = [
        Workers(run, world, [one for one in shards if one.run is run], random, kills_left=random.choice([0, 2, 4]))
        for run in runs
    ]
    over: list[Amount] = []

    async def look() -> None:
        while True:
            over.extend(amount for amount in (await months(database)).values() if not covers(limits, amount))
            await asyncio.sleep(0.002)

    looking = asyncio.create_task(look())
    async with asyncio.TaskGroup() as group:
        for workers in every:
            group.create_task(workers.all_done())
    looking.cancel()
    await asyncio.wait({looking})
    assert not over, f"{over[0]} of {limits}"
    for run in runs:
        await run.store.budgets.settle_trial(run.trial())
    [month] = (await months(database)).values()
    accounts = [(await used(database, run.run_id)).all for run in runs]
    assert covers(limits, world.paid), f"paid {world.paid} of {limits}"
    assert month.samples == total(accounts).samples >= world.paid.samples
    assert month.cost == pytest.approx(total(accounts).cost)
    for shard in shards:
        if shard.team_rest is not None:
            assert not covers(limits, month + Amount(1, EACH.tokens, EACH.cost)), "more could have been done"
            assert (shard.team_rest.team, shard.team_rest.resource) == ("crew", shard.exhausted)
    assert any(shard.team_rest for shard in shards)


async def test_a_lease_belongs_to_its_month_and_the_next_one_begins_afresh(database: Database) -> None:
    await given(database, Budget(samples=10))
    run = await of_crew(database, "run-1")
    clock = [NOVEMBER]
    budgets = Budgets(database, now=lambda: clock[0])

    def key(holder: str, attempt: int = 1) -> LeaseKey:
        return LeaseKey(run.run_id, holder, attempt, fresh_nonce(), "baseline", run.trial().trial_id)

    def request(samples: int) -> LeaseRequest:
        return LeaseRequest(Amount(samples), Amount(samples))

    first, dying = key("first"), key("dying")
    assert (await budgets.lease(first, LeaseBalance(), request(6))).granted.samples == 6
    assert (await budgets.lease(dying, LeaseBalance(), request(3))).granted.samples == 3
    clock[0] = DECEMBER
    more = await budgets.lease(first, LeaseBalance(held=Amount(6)), request(2))
    assert more.team_rest is not None and more.team_rest.words == "team crew has 1 of 10 left for 2026-11"
    assert (more.short_of, more.others_at_work) == ("samples", True)
    successor = key("dying", attempt=2)  # takes over what was set aside in November
    assert (await budgets.lease(successor, LeaseBalance(), request(10))).granted.samples == 10
    await budgets.close_lease(first, LeaseBalance(spent=Amount(5)))
    await budgets.close_lease(successor, LeaseBalance(spent=Amount(7)))
    assert {name: amount for name, amount in (await months(database)).items() if amount} == {
        "2026-11": Amount(5 + 3),
        "2026-12": Amount(7),
    }


async def test_what_a_run_took_stays_taken_when_it_is_started_anew_or_deleted(database: Database) -> None:
    await given(database, Budget(samples=10, cost=5.0))
    run = await of_crew(database, "run-1")
    shard = Shard(run, World(Random(1), known=True), "shard", 10, STATED)
    await shard.budget_lease(MortalBudgets(database)).reservation()  # its worker dies
    [left] = (await months(database)).values()
    assert left.samples > 0
    await run.open(execution_id="execution-2")
    assert (await used(database, run.run_id)).all == NOTHING
    assert list((await months(database)).values()) == [left]
    await shard.budget_lease(MortalBudgets(database)).reservation()
    await run.store.runs.delete(run.run_id)
    [both] = (await months(database)).values()
    assert both == left.times(2)


async def test_only_runs_of_the_team_take_from_it_and_each_ends_by_the_account_that_is_short(database: Database) -> None:
    await given(database, Budget(samples=8))
    await given(database, Budget(samples=1), team="others")
    short, crew = await of_crew(database, "short", Budget(samples=3)), await of_crew(database, "free")
    world = World(Random(1), known=True)
    nobodys = await opened(ExampleRun(Store(database), database, "nobodys"), Budget(samples=50))
    found = {}
    for run in (short, nobodys, crew):
        shard = Shard(run, world, "shard", 20, STATED)
        await shard.work(MortalBudgets(database), 2)
        found[run.run_id] = (shard.answered, shard.team_rest is not None)
    assert found == {"short": (3, False), "nobodys": (20, False), "free": (5, True)}
    [month] = await TeamMonthReader(database).now("crew")
    assert (month.spent.samples, month.left.samples, month.left.cost) == (8, 0, None)
    await TeamBudgets(database).set("crew", Amount(samples=9), "a test")
    raised = Shard(crew, world, "raised", 20, STATED)
    await raised.work(MortalBudgets(database), 2)
    assert (raised.answered, raised.exhausted) == (1, "samples")
    await TeamBudgets(database).set("crew", NOTHING, "a test")
    assert await TeamMonthReader(database).now("crew") == []


async def test_a_call_of_which_nobody_knows_what_it_takes_waits_for_another_such_call_and_not_for_the_whole_team(
    database: Database,
) -> None:
    await given(database, Budget(cost=10.0))
    runs = [await of_crew(database, f"run-{n}") for n in range(3)]
    known, first, second = (LeaseKey(run.run_id, "shard", 1, fresh_nonce()) for run in runs)
    budgets, some = Budgets(database), LeaseRequest(Amount(cost=1.0), Amount(cost=1.0))
    alone = LeaseRequest(exclusive=True)
    assert (await budgets.lease(known, LeaseBalance(), some)).granted == Amount(cost=1.0)
    assert (await budgets.lease(first, LeaseBalance(), alone)).short_of is None
    for key, balance, request in ((second, LeaseBalance(), alone), (known, LeaseBalance(held=Amount(cost=1.0)), some)):
        waits = await budgets.lease(key, balance, request)
        assert (waits.short_of, waits.others_at_work) == ("cost", True)
    await budgets.close_lease(first, LeaseBalance(spent=Amount(cost=4.0)))
    assert (await budgets.lease(second, LeaseBalance(), alone)).short_of is None


async def test_runs_that_know_nothing_yet_get_all_their_answers(database: Database) -> None:
    await given(database, Budget(cost=10.0))
    runs = [await of_crew(database, f"run-{n}") for n in range(3)]
    worlds = [World(Random(n)) for n in range(3)]
    shards = [Shard(run, world, "shard", 15, None) for run, world in zip(runs, worlds, strict=True)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for shard in shards:
            group.create_task(shard.work(MortalBudgets(database), 4))
    assert [shard.answered for shard in shards] == [15, 15, 15]
    [month] = (await months(database)).values()
    assert month.cost == pytest.approx(sum(world.paid.cost for world in worlds))
