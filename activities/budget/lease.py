"""The budget lease of a shard, or of a proposal: budget leased in small portions, handed out call by call, and accounted for.

What calls in flight can take is always set aside in PostgreSQL, so that a run stays within its budget whoever is killed when.
What a dead worker had set aside counts as paid for and lost; therefore little is leased ahead.

Who waits for money holds none: what is set aside belongs to calls that are made. So nobody waits for what another one who waits
has, and a budget is exhausted only when what was taken, and what calls in flight can take, leave no room. A sample of several
calls begins when there is room for all of them, or when nobody else is at work; and samples that are begun come first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from activities.budget.metering import BudgetExhausted
from activities.budget.waiting_line import WaitingLine
from activities.endpoints.call_context import Bound
from activities.observation.worker_meters import UNSEEN, WorkerMeters
from activities.shards.outcome_batches import until_back
from store.budget_leases import LeaseBalance, Leased, LeaseKey, LeaseRequest, Second
from store.write.limits.budgets import Budgets
from workflows.model.run.amounts import NOTHING, Amount, Resource, total

T = TypeVar("T")

SAFETY = 1.5
"""A call whose most nobody states is expected to take no more than this times the dearest so far."""

AHEAD = 0.25
MOST_AHEAD = 8
"""Leased ahead: calls, as a share of those in flight. More would be faster, and lose more when a worker is killed."""

SECONDS_BETWEEN_RENEWALS = 10.0
PATIENCE_AT_THE_END = 10.0

SECONDS_BETWEEN_LOOKS = 0.1
"""How often a lease that waits for what others give back looks whether they did."""

SECONDS_UNTIL_GIVEN_BACK = 0.5
"""What was leased ahead is given back after so long without a sample at work: others may wait for it."""


class Reservation:
    """What one sample, or one proposal, has set aside and taken so far."""

    def __init__(self, budget_lease: BudgetLease, samples: int, paid: Amount, answer_id: int | None = None) -> None:
        self._budget_lease = budget_lease
        self._answer_id = answer_id
        self._samples = samples
        self._paid = paid
        self._perhaps_paid = False
        self.reserved = NOTHING
        self.pending = NOTHING
        self.spent = NOTHING
        self.lost = NOTHING
        self.waiting = 0
        """Calls that wait for what they need."""
        self.at_work = 0
        self.begun = False
        """Whether a call was made."""
        self.exclusive = False

    @property
    def left(self) -> Amount:
        """Set aside and not yet used."""
        return (self.reserved - self.pending - self.spent - self.lost).not_negative()

    @property
    def held(self) -> Amount:
        """All that may still be spent with this reservation."""
        return (self.reserved - self.spent - self.lost).not_negative().or_more(self.pending)

    @property
    def busy(self) -> bool:
        """Whether something goes on that needs no further budget: what is held may come back."""
        return self.at_work > 0 or not self.waiting

    async def reserve(self, bound: Bound) -> Amount | None:
        most = await self._budget_lease.cover(self, bound)
        self.pending += most or NOTHING
        self.at_work += 1
        self.begun = True
        self.exclusive = most is None
        return most

    def expected(self, stated: Amount | None) -> Amount | None:
        return self._budget_lease.expected(stated)

    def settle(self, reserved: Amount | None, actual: Amount) -> None:
        self._ended(reserved)
        self.spent += actual
        if reserved is not None and reserved.short_of(actual, self._budget_lease.limited) is not None:
            self._budget_lease.exceeded += 1
        self._budget_lease.moved()

    def lose(self, reserved: Amount | None) -> None:
        self._ended(reserved)
        self._perhaps_paid = True
        self.lost += reserved or NOTHING
        self._budget_lease.moved()

    def _ended(self, reserved: Amount | None) -> None:
        self.pending -= reserved or NOTHING
        self.at_work -= 1
        self.exclusive = False

    def lose_everything_at_work(self) -> None:
        """Nobody will hear how these calls ended."""
        self._perhaps_paid = self._perhaps_paid or self.at_work > 0
        self.lost += self.pending
        self.pending = NOTHING

    def answered(self, tokens: int, cost: float) -> None:
        """There is an answer: the sample counts as paid for. What it took beyond what was metered was paid elsewhere."""
        more = (Amount(samples=1, tokens=tokens, cost=cost) - self._paid - self.spent).not_negative()
        self.spent += more
        if more.samples and self._answer_id is not None:
            self._budget_lease.unstored.add(self._answer_id)

    def give_back(self) -> Amount:
        """The money that no call needs now."""
        money = replace(self.left, samples=0)
        self.reserved -= money
        return money

    def close(self) -> None:
        """What was not used goes back. A call that was paid for, or may have been, counts even without an answer."""
        if not self.spent.samples and (self.spent or self._perhaps_paid):
            self.lost += Amount(samples=self._samples)
        self._budget_lease.take_back(self)


class BudgetLease:
    """Hands out reservations, and keeps them covered by leases."""

    def __init__(
        self,
        budgets: Budgets,
        key: LeaseKey,
        is_away: Callable[[BaseException], bool],
        *,
        most_needed: int = 1,
        samples_each: int = 1,
        calls_each: int = 1,
        meters: WorkerMeters = UNSEEN,
    ) -> None:
        """`most_needed` is how many reservations will be asked for in all; `samples_each` is 0 where they pay no target call.

        `calls_each` is how many calls a sample makes, one after the other, as far as that is known.
        """
        self._budgets = budgets
        self._meters = meters
        self._samples_each = samples_each
        self._calls_each = calls_each
        self._opened = False
        self._key = key
        self._is_away = is_away
        self._still_needed = most_needed
        self._free = NOTHING
        self._offered = NOTHING
        """What was free, and is given back if more is refused."""
        self._spent = NOTHING
        self._lost = NOTHING
        self._largest = NOTHING
        self._own_dearest: Amount | None = None
        self._reservations: set[Reservation] = set()
        self._line = WaitingLine()
        self._is_scarce = False
        """Whether somebody waits for what others give back; then nobody takes it before him."""
        self.unstored: set[int] = set()
        """Answers that came and are not in the store yet. Till then their samples are set aside and not spent: who takes the
        lease over counts them as lost, once."""
        self._writing = asyncio.Lock()
        self._moved = asyncio.Event()
        self._known: Amount | None = None
        self.limited: tuple[Resource, ...] = ("tokens", "cost")
        self.exceeded = 0

    @property
    def counts_money(self) -> bool:
        """Whether tokens or cost are limited, as far as is known."""
        return "tokens" in self.limited or "cost" in self.limited

    # -- reservations ----------------------------------------------------------------------------------------------------------

    async def reservation(self, paid: Amount = NOTHING, answer_id: int | None = None) -> Reservation:
        """A reservation for one sample, of which something may be paid already, and whose answer is stored by that number.
        Raises BudgetExhausted when there is none."""
        samples = 0 if paid.samples else self._samples_each
        reservation = Reservation(self, samples, paid, answer_id)
        self._reservations.add(reservation)
        try:
            await self._cover(reservation, lambda: Amount(samples=samples), calls=True)
        except BaseException:
            self._reservations.discard(reservation)
            raise
        self._still_needed = max(0, self._still_needed - 1)
        # What such a sample took before goes with it, so that it needs no second lease.
        portion = replace(self._largest.or_less(self._free), samples=0).not_negative()
        self._free -= portion
        reservation.reserved += portion
        return reservation

    async def cover(self, reservation: Reservation, bound: Bound) -> Amount | None:
        """Make sure that the reservation covers a call; the most that the call can take, or None when nobody knows."""
        if not self.counts_money:
            return NOTHING
        return await self._cover(reservation, bound, calls=False)

    def expected(self, stated: Amount | None) -> Amount | None:
        """What a call takes at most: as stated, else by the dearest so far; None as long as nothing is known."""
        if stated is not None:
            return stated
        known = [amount for amount in (self._known, self._own_dearest) if amount is not None]
        return replace(known[0].or_more(known[-1]).times(SAFETY), samples=0) if known else None

    def take_back(self, reservation: Reservation) -> None:
        """The reservation is used up: its account becomes the lease's, and little of the rest is kept for the next."""
        self._reservations.discard(reservation)
        self._largest = self._largest.or_more(replace(reservation.reserved, samples=0))
        self._spent += reservation.spent
        self._lost += reservation.lost
        if reservation.spent.samples:
            spent = replace(reservation.spent, samples=0)
            self._own_dearest = spent.or_more(self._own_dearest or NOTHING)
        back = (reservation.reserved - reservation.spent - reservation.lost).not_negative()
        self._free = (self._free + back).or_less(self._unit().times(self._ahead()))
        self.moved()

    def moved(self) -> None:
        """Something was given back: whoever waits for it looks again."""
        self._moved.set()

    async def _cover(self, reservation: Reservation, bound: Bound, *, calls: bool) -> Amount | None:
        covered, most = False, bound()
        if not self._is_scarce:
            covered = self._take(reservation, most, self._wish(reservation, most, calls), calls)
        if covered:
            self._meters.reservations.add(1, "granted")
            return most
        since = time.monotonic()
        try:
            most = await self._waited_for(reservation, bound, calls=calls)
        except BudgetExhausted:
            self._meters.waited_for_budget(time.monotonic() - since, "refused")
            raise
        self._meters.waited_for_budget(time.monotonic() - since, "granted")
        return most

    async def _waited_for(self, reservation: Reservation, bound: Bound, *, calls: bool) -> Amount | None:
        covered, most = False, bound()
        reservation.waiting += 1
        self._free += reservation.give_back()
        place = self._line.place(0 if reservation.begun else 2 if calls else 1)
        try:
            while not covered:
                async with self._line.turn(place):
                    while not covered and not self._line.is_overtaken(place):
                        self._moved.clear()
                        most = bound()
                        covered = await self._from_a_lease(reservation, most, calls)
                        self._is_scarce = not covered
                        if not covered:
                            with contextlib.suppress(TimeoutError):
                                async with asyncio.timeout(SECONDS_BETWEEN_LOOKS):
                                    await self._moved.wait()
        finally:
            self._is_scarce = False  # whoever waits next finds out
            reservation.waiting -= 1
        return most

    def _wish(self, reservation: Reservation, most: Amount | None, calls: bool) -> Amount | None:
        """What a call needs, and with the first one of a sample also what those after it are going to."""
        return most if most is None or calls or reservation.begun else most.times(self._calls_each)

    def _take(self, reservation: Reservation, most: Amount | None, wish: Amount | None, calls: bool) -> bool:
        """Cover a call from what is free, if that is enough."""
        if most is None or wish is None or not self._opened:
            return False
        missing = self._missing(reservation, wish, calls)
        if self._free.short_of(missing) is not None:
            return False
        self._free = (self._free - missing).not_negative()
        reservation.reserved += missing
        return True

    async def _from_a_lease(self, reservation: Reservation, most: Amount | None, calls: bool) -> bool:
        """Cover a call with more of the budget; False when that must be waited for. Raises BudgetExhausted."""
        wish = self._wish(reservation, most, calls)
        if self._take(reservation, most, wish, calls):
            return True
        others_here = self._others_busy(reservation)
        if most is None and others_here:
            return False
        leased = await self._leased(most is None, self._missing(reservation, wish, calls))
        last = not (leased.others_at_work or others_here or self._others_busy(reservation))
        if leased.short_of is not None and last and most != wish:
            wish = most
            leased = await self._leased(False, self._missing(reservation, wish, calls))
            last = not (leased.others_at_work or self._others_busy(reservation))
        if leased.short_of is None:
            return most is None or self._take(reservation, most, wish, calls)
        if last:
            raise BudgetExhausted(leased.short_of, leased.team_rest)
        return False

    def _others_busy(self, reservation: Reservation) -> bool:
        return reservation.at_work > 0 or any(other.busy for other in self._reservations if other is not reservation)

    async def _leased(self, exclusive: bool, missing: Amount) -> Leased:
        """Ask for more. What is refused is given back in full, so that others see what there is."""
        async with self._writing:
            self._offered, self._free = self._free, NOTHING
            needed = (missing - self._offered).not_negative()
            welcome = (missing + self._unit().times(self._ahead()) - self._offered).or_more(needed)
            request = LeaseRequest(needed, welcome, exclusive, again=self._opened, spare=self._offered)
            try:
                leased = await until_back(lambda: self._budgets.lease(self._key, self.balance(), request), self._is_away)
                if leased.short_of is None:
                    self._free += leased.granted + self._offered
            finally:
                self._offered = NOTHING
            self._opened = True
            self._known, self.limited = leased.dearest, leased.limited
            return leased

    @staticmethod
    def _missing(reservation: Reservation, most: Amount | None, calls: bool) -> Amount:
        if most is None:
            return NOTHING
        return (most if calls else most - reservation.left).not_negative()

    def _unit(self) -> Amount:
        """What one further reservation is going to need, as far as it is known."""
        return replace(self._largest, samples=self._samples_each)

    def _ahead(self) -> int:
        return min(MOST_AHEAD, self._still_needed, 1 + int(AHEAD * len(self._reservations)))

    # -- accounts ---------------------------------------------------------------------------------------------------------

    def balance(self, stored: Collection[int] = (), second: Second | None = None) -> LeaseBalance:
        """Where the lease stands once these answers are in the store, too, or were found to have come second."""
        on_their_way = Amount(samples=len(self.unstored.difference(stored)))
        in_vain = self._in_vain(second or {})
        held = total([self._free, self._offered, *(reservation.held for reservation in self._reservations)])
        return LeaseBalance(
            held=held + on_their_way,
            spent=total([self._spent, *(reservation.spent for reservation in self._reservations)]) - on_their_way - in_vain,
            lost=total([self._lost, *(reservation.lost for reservation in self._reservations)]) + in_vain,
            dearest=self._own_dearest,
            exceeded=self.exceeded,
            exclusive=any(reservation.exclusive for reservation in self._reservations),
            idle=not any(reservation.busy for reservation in self._reservations),
            waiting=bool(self._reservations) and not any(reservation.busy for reservation in self._reservations),
        )

    def _in_vain(self, second: Second) -> Amount:
        """What was paid for answers that others were faster with."""
        return total(amount for answer_id, amount in second.items() if answer_id in self.unstored)

    async def written_with(self, write: Callable[[LeaseKey, LeaseBalance], Awaitable[T]]) -> T:
        """Write something together with the books; nobody else writes them meanwhile."""
        async with self._writing:
            return await write(self._key, self.balance())

    async def stored_with(
        self, store: Callable[[LeaseKey, Callable[[Second], LeaseBalance]], Awaitable[Second]], answers: Collection[int]
    ) -> None:
        """Store answers together with the books, in which they are spent, or lost where another attempt was faster."""
        async with self._writing:
            second = await store(self._key, lambda second: self.balance(answers, second))
            in_vain = self._in_vain(second)
            self._spent, self._lost = self._spent - in_vain, self._lost + in_vain
            self.unstored.difference_update(answers)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the lease alive, and settle it in the end. What that misses is settled when the trial is concluded."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            closing = asyncio.create_task(self._close())
            await asyncio.wait({closing}, timeout=PATIENCE_AT_THE_END)
            closing.cancel()

    async def _close(self) -> None:
        for reservation in list(self._reservations):
            reservation.lose_everything_at_work()
            reservation.close()
        self._free = NOTHING
        lost = Amount(samples=len(self.unstored))  # nobody tries to store them any more
        self._spent, self._lost = self._spent - lost, self._lost + lost
        self.unstored.clear()
        await self._with_balance(self._budgets.close_lease)

    async def _renew(self) -> None:
        until_renewed, was_idle = SECONDS_BETWEEN_RENEWALS, False
        while True:
            await asyncio.sleep(SECONDS_UNTIL_GIVEN_BACK)
            until_renewed -= SECONDS_UNTIL_GIVEN_BACK
            is_idle = not self._reservations and bool(self._free)
            if is_idle and was_idle:
                self._free = NOTHING
            if until_renewed <= 0 or (is_idle and was_idle):
                await self._with_balance(self._budgets.write_balance)
                until_renewed = SECONDS_BETWEEN_RENEWALS
            was_idle = is_idle

    async def _with_balance(self, write: Callable[[LeaseKey, LeaseBalance], Awaitable[object]]) -> None:
        async with self._writing:
            await until_back(lambda: write(self._key, self.balance()), self._is_away)


def fresh_nonce() -> str:
    """Tells this attempt from every other, also from one with the same number."""
    return uuid.uuid4().hex
