"""Shards that lease from real budgets, for workers that may die, against a world that counts what is really paid."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from random import Random

from activities.budget.lease import BudgetLease, fresh_nonce
from activities.budget.metering import BudgetExhausted, at_most, metered
from activities.endpoints.call_context import Bound, CallContext
from activities.targets.faults import CandidateFault
from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest
from store.connection import is_away
from store.write.limits.budgets import Budgets
from tests.support.budgets import EACH
from tests.support.store_examples import ExampleRun
from workflows.model.run.amounts import NOTHING, Amount
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.targets.at_most import AtMost


class Killed(RuntimeError):
    """What a dead worker's calls to the store end with, so that nothing it still does arrives there."""


class MortalBudgets(Budgets):
    """A worker's way to the store, which death cuts."""

    dead = False

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    async def lease(self, key: LeaseKey, balance: LeaseBalance, request: LeaseRequest) -> Leased:
        self._alive()
        leased = await super().lease(key, balance, request)
        self._alive()
        return leased

    async def write_balance(self, key: LeaseKey, balance: LeaseBalance) -> None:
        self._alive()
        await super().write_balance(key, balance)

    async def close_lease(self, key: LeaseKey, balance: LeaseBalance) -> None:
        self._alive()
        await super().close_lease(key, balance)


@dataclass
class World:
    """Targets, and what they are really paid."""

    random: Random
    paid: Amount = NOTHING
    in_flight: int = 0
    most_in_flight: int = 0
    failing: float = 0.0
    known: bool = False
    unknown_in_flight: int = 0

    async def call(self, context: CallContext, bound: Bound, most: Amount) -> None:
        """One call: it is paid for when it is made, and says what it took when it is over, if it says anything."""
        async with metered(context, bound) as call:
            actual = Amount(
                tokens=self.random.randint(most.tokens // 2, most.tokens), cost=most.cost * self.random.uniform(0.5, 1)
            )
            self.paid += Amount(1, actual.tokens, actual.cost)
            self.in_flight += 1
            self.unknown_in_flight += not self.known
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            assert self.known or self.unknown_in_flight == 1, "nothing is known, and still calls are made side by side"
            try:
                await asyncio.sleep(self.random.uniform(0, 0.004))
            finally:
                self.in_flight -= 1
                self.unknown_in_flight -= not self.known
            if self.random.random() < self.failing:
                raise CandidateFault("broke off half-way, after it was paid for")
            self.known = True
            call.took(actual.tokens, actual.cost)

    async def step(self, context: CallContext, most: Amount) -> None:
        """One call of several, which takes far less than it could, as calls of chat models do."""
        async with metered(context, lambda: most) as call:
            actual = most.times(self.random.choice([0.01, 0.01, 1.0]))
            self.paid += actual
            await asyncio.sleep(self.random.uniform(0, 0.002))
            call.took(actual.tokens, actual.cost)


@dataclass
class Shard:
    """A shard that is worked on until it is done, the budget is exhausted, or its worker dies."""

    run: ExampleRun
    world: World
    holder: str
    calls: int
    stated: AtMost | None
    attempt: int = 0
    answered: int = 0
    exhausted: str | None = None
    team_rest: TeamRest | None = None

    def budget_lease(self, budgets: MortalBudgets) -> BudgetLease:
        self.attempt += 1
        key = LeaseKey(self.run.run_id, self.holder, self.attempt, fresh_nonce(), "baseline", self.run.trial().trial_id)
        return BudgetLease(budgets, key, is_away, most_needed=self.calls - self.answered)

    async def work(self, budgets: MortalBudgets, side_by_side: int) -> None:
        room = asyncio.Semaphore(side_by_side)
        budget_lease = self.budget_lease(budgets)
        async with budget_lease.open(), asyncio.TaskGroup() as group:
            for _ in range(self.calls - self.answered):
                await room.acquire()
                if self.exhausted is not None or budgets.dead:
                    break
                group.create_task(self._pair(budget_lease, budgets)).add_done_callback(lambda _: room.release())

    async def _pair(self, budget_lease: BudgetLease, budgets: MortalBudgets) -> None:
        try:
            reservation = await budget_lease.reservation()
        except BudgetExhausted as error:
            self.exhausted, self.team_rest = error.resource, error.team_rest
            return
        try:
            with contextlib.suppress(CandidateFault):
                await self.world.call(CallContext(meter=reservation), at_most(reservation, self.stated), EACH)
                reservation.answered(0, 0.0)
                self.answered += 1
        except BudgetExhausted as error:
            self.exhausted, self.team_rest = error.resource, error.team_rest
        finally:
            reservation.close()
        if self.world.random.random() < 0.5:
            await budget_lease.written_with(budgets.write_balance)


@dataclass
class Workers:
    """Works on shards with random deaths, and takes them up again until all of them have ended."""

    run: ExampleRun
    world: World
    shards: list[Shard]
    random: Random
    kills_left: int
    kills: int = 0
    done: list[Shard] = field(default_factory=list)

    async def all_done(self) -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for shard in self.shards:
                group.create_task(self._until_it_ends(shard))

    async def _until_it_ends(self, shard: Shard) -> None:
        while shard.answered < shard.calls and shard.exhausted is None:
            budgets = MortalBudgets(self.run.database)
            work = asyncio.create_task(shard.work(budgets, self.random.randint(1, 8)))
            if self.kills_left and self.random.random() < 0.7:
                self.kills_left -= 1
                await asyncio.wait({work}, timeout=self.random.uniform(0.005, 0.08))
                if not work.done():
                    self.kills += 1
                    budgets.dead = True
                    work.cancel()
                    shard.exhausted = None  # nobody heard of it
            await asyncio.wait({work})
            if not budgets.dead:
                work.result()
                return
            if not work.cancelled():
                work.exception()  # a killed worker tells nobody, and no other test shall be held up by its report
