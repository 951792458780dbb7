"""Budget for calls that others make: set aside before they are asked, and settled once they have answered.

Nobody of ours sees these calls, so that no lease can follow them one by one. What they can take is one row of `budget_leases`
from before the first of them is made until their answers are in the store.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from temporalio import activity

from activities.budget.lease import SAFETY
from activities.observation.worker_meters import UNSEEN, WorkerMeters
from activities.shards.outcome_batches import until_back
from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest
from store.write.limits.budgets import Budgets
from workflows.model.activities.external_trials import CallsSettlement
from workflows.model.run.amounts import LAST_DIGITS, Amount, Resource
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.targets.at_most import AtMost
from workflows.model.trial import ShardInput, Split

NONCE = "calls"
"""One for all attempts: setting the same calls aside again changes nothing."""

MOST_CALLS = 1_000_000
"""That are made together where they take nothing that is counted."""

FIRST_LOOK, LONGEST_BETWEEN_LOOKS = 0.1, 2.0
"""Seconds. How often is looked whether others gave something back."""


@dataclass(frozen=True, slots=True)
class Covered:
    """How many calls may be made."""

    calls: int
    short_of: Resource | None = None
    """What there is too little of, when that is none."""
    team_rest: TeamRest | None = None
    """What is left of the team's month, where that is it."""
    others_at_work: bool = False
    """Others hold some of it, and may give it back."""


class ExternalReservations:
    """Sets budget aside for calls of strangers."""

    def __init__(self, budgets: Budgets, is_away: Callable[[BaseException], bool], meters: WorkerMeters = UNSEEN) -> None:
        self._budgets = budgets
        self._meters = meters
        self._is_away = is_away

    async def cover(
        self,
        shard: ShardInput,
        holder: str,
        wanted: int,
        stated: AtMost | None,
        *,
        lasts: float,
        least: int = 1,
        patience: float = math.inf,
        samples_each: int = 1,
    ) -> Covered:
        """Set aside what so many calls can take, or fewer, but not fewer than `least`; waits for what others may give back.

        A call of which nobody knows what it takes is made alone. `lasts` says for how many seconds others wait for this.
        Who holds something while he waits must not wait for ever: those he waits for may wait for him.
        """
        key = _key(shard, holder, lasts)
        since = time.monotonic()
        given_up_at = since + patience
        pause = FIRST_LOOK
        while True:
            each, exclusive = await self._each(key, stated, samples_each)
            most = least if exclusive else wanted
            leased = await self._lease(key, LeaseRequest(each.times(least), each.times(most), exclusive))
            if leased.short_of is None:
                calls = min(most, _fitting(leased.granted, each))
                if calls < most:
                    await self._write(key, LeaseBalance(held=each.times(calls)))
                self._meters.waited_for_budget(time.monotonic() - since, "granted")
                return Covered(calls)
            if not leased.others_at_work or time.monotonic() > given_up_at:
                await until_back(lambda: self._budgets.close_lease(key, LeaseBalance()), self._is_away)
                self._meters.waited_for_budget(time.monotonic() - since, "refused")
                return Covered(0, leased.short_of, leased.team_rest, leased.others_at_work)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_BETWEEN_LOOKS)

    async def settle(self, shard: ShardInput, settlement: CallsSettlement) -> None:
        """Count what was taken, and give back the rest of what was set aside. Doing it twice changes nothing."""
        await until_back(lambda: self._budgets.settle_calls(_key(shard, ""), _named(settlement)), self._is_away)

    async def _each(self, key: LeaseKey, stated: AtMost | None, samples: int) -> tuple[Amount, bool]:
        """What one call takes at most, and whether that is not known at all."""
        if stated is not None:
            return Amount(samples=samples, tokens=stated.tokens, cost=stated.cost), False
        known = await self._lease(key, LeaseRequest())
        if not known.counts_money:
            return Amount(samples=1), False
        if known.dearest is None:
            return Amount(samples=1), True
        return replace(known.dearest.times(SAFETY), samples=1), False

    async def _lease(self, key: LeaseKey, request: LeaseRequest) -> Leased:
        waiting = LeaseBalance(idle=True, waiting=True)
        return await until_back(lambda: self._budgets.lease(key, waiting, request), self._is_away)

    async def _write(self, key: LeaseKey, balance: LeaseBalance) -> None:
        await until_back(lambda: self._budgets.write_balance(key, balance), self._is_away)


def _fitting(granted: Amount, each: Amount) -> int:
    """How many calls a grant covers."""
    pairs = [(granted.samples, each.samples), (granted.tokens, each.tokens), (granted.cost, each.cost)]
    return min((int(there / wanted * (1 + LAST_DIGITS)) for there, wanted in pairs if wanted), default=MOST_CALLS)


def _key(shard: ShardInput, holder: str, lasts: float = 0.0) -> LeaseKey:
    return LeaseKey(
        shard.run_id,
        _full_name(holder),
        1,
        NONCE,
        candidate_id=shard.candidate_id,
        trial_id=shard.trial_id,
        confirming=shard.split is Split.TEST,
        lasts=lasts,
    )


def _named(settlement: CallsSettlement) -> CallsSettlement:
    return settlement.model_copy(update={"holders": tuple(map(_full_name, settlement.holders))})


def _full_name(holder: str) -> str:
    return f"{activity.info().workflow_id}#{holder}"
