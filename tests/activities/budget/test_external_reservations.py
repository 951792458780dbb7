"""Budget for calls that others make is set aside before and settled after: random portions over real PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

import pytest

from activities.budget.external_reservations import ExternalReservations
from store.connection import Database, is_away
from tests.support.activity_attempts import activity_environment
from tests.support.budgets import EACH, covers, opened, random_budget, used, watched
from tests.support.store_examples import ExampleRun
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.spec.execution import Budget
from workflows.model.spec.targets.at_most import AtMost
from workflows.model.trial import ShardInput


@pytest.fixture(autouse=True)
def nobody_waits_long_for_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.write.limits.budgets.SECONDS_UNTIL_STALE", 1)


STATED = AtMost(tokens=EACH.tokens, cost=EACH.cost)


@dataclass
class Strangers:
    """Somebody else's worker: what it is really paid, by nobody's leave but ours."""

    aside: ExternalReservations
    shard: ShardInput
    random: Random
    stated: AtMost | None = STATED
    paid: Amount = NOTHING
    exhausted: int = 0
    known: bool = True
    unknown_at_work: int = 0

    async def trial(self, name: str, calls: int, dying: float) -> None:
        """Portion after portion, as far as the budget goes, calls made again when they fail; some are never settled."""
        while calls > 0:
            covered = await self.aside.cover(self.shard, f"{name}-{calls}", calls, self.stated, lasts=0.0)
            if covered.short_of:
                self.exhausted += 1
                return
            calls -= covered.calls
            if not await self._made(f"{name}-{calls + covered.calls}", covered.calls, dying):
                return

    async def _made(self, holder: str, calls: int, dying: float) -> bool:
        holders, made, bills = [holder], calls, list[Amount]()
        self.unknown_at_work += not self.known
        assert self.known or (self.unknown_at_work, calls) == (1, 1), "nothing is known, and still calls are made side by side"
        for _ in range(calls):
            bills.append(self._call())
        await asyncio.sleep(self.random.uniform(0, 0.01))
        while self.known and self.random.random() < 0.3:
            again = f"{holder}-again-{len(holders)}"
            holders.append(again)
            covered = await self.aside.cover(self.shard, again, 2, self.stated, lasts=0.0, least=2, patience=0.3)
            if covered.short_of:
                break
            made += 2  # and nobody hears what became of them
            self._call(), self._call()
        if self.random.random() < dying:
            return False
        self.unknown_at_work -= not self.known
        self.known = True
        settlement = CallsSettlement(
            holders=tuple(holders),
            answered=len(bills),
            unanswered=made - len(bills),
            tokens=sum(bill.tokens for bill in bills),
            cost=sum(bill.cost for bill in bills),
            most_tokens_per_sample=max(bill.tokens for bill in bills),
            most_cost_per_sample=max(bill.cost for bill in bills),
        )
        for _ in range(self.random.choice([1, 2])):
            await self.aside.settle(self.shard, settlement)
        return True

    def _call(self) -> Amount:
        bill = Amount(tokens=self.random.randint(EACH.tokens // 2, EACH.tokens), cost=EACH.cost * self.random.uniform(0.5, 1.0))
        self.paid += Amount(1, bill.tokens, bill.cost)
        return bill


async def strangers(run: ExampleRun, random: Random) -> Strangers:
    trial = run.trial()
    shard = run.shard(trial).model_copy(update={"metered": True})
    return Strangers(ExternalReservations(run.store.budgets, is_away), shard, random)


@pytest.mark.parametrize("seed", range(8))
async def test_no_budget_is_overshot_by_calls_that_nobody_of_ours_sees(
    seed: int, example: ExampleRun, database: Database
) -> None:
    random = Random(seed)
    budget = random_budget(random)
    run = await opened(example, budget)
    world = await strangers(run, random)
    dying = random.choice([0.0, 0.2])

    async def trials() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for n in range(random.randint(1, 6)):
                group.create_task(world.trial(f"trial-{n}", random.randint(5, 60), dying))

    async with watched(database, run.run_id, lambda: budget):
        await activity_environment().run(trials)
    await run.store.budgets.settle_trial(run.trial())
    account = await used(database, run.run_id)
    assert account.held == NOTHING
    assert covers(budget, world.paid), f"paid {world.paid} of {budget}"
    assert covers(budget, account.all)
    assert account.all.short_of(world.paid) is None or not (budget.tokens or budget.cost)
    assert account.all.samples >= world.paid.samples
    if world.exhausted and not dying:
        assert not covers(budget, account.all + Amount(1, EACH.tokens, EACH.cost).times(2)), "more could have been done"


async def test_an_experiment_is_covered_as_a_whole_or_not_begun(example: ExampleRun) -> None:
    run = await opened(example, Budget(cost=0.25))
    world = await strangers(run, Random(1))

    async def trials() -> None:
        whole = await world.aside.cover(world.shard, "first", 20, STATED, lasts=0.0, least=20)
        assert (whole.calls, whole.short_of) == (20, None)
        too_much = await world.aside.cover(world.shard, "second", 10, STATED, lasts=0.0, least=10)
        assert (too_much.calls, too_much.short_of) == (0, "cost")

    await activity_environment().run(trials)


async def test_what_nobody_states_is_learned_from_one_call(example: ExampleRun, database: Database) -> None:
    run = await opened(example, Budget(cost=0.3))
    world = await strangers(run, Random(2))
    world.stated, world.known = None, False
    await activity_environment().run(world.trial, "trial", 200, 0.0)
    assert world.exhausted == 1
    assert 0.3 - 3 * EACH.cost < world.paid.cost <= 0.3 + EACH.cost
    assert (await used(database, run.run_id)).held == NOTHING
