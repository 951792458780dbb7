"""Calls that cost something, metered where they are made: what they can take is set aside before, and settled after.

Whoever evaluates a sample, or asks for a proposal, carries a ticket; it is found here by everything that is called on its
behalf, a judge of the answer included. Without a budget there is no ticket, and nothing is metered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from activities.targets.faults import Fault
from workflows.model.run.amounts import NOTHING, Amount, Resource
from workflows.model.spec.targets.at_most import AtMost

Bound = Callable[[], Amount | None]
"""The most that a call can take, as far as is known by now; None when nothing is."""


class BudgetExhausted(Exception):
    """What is left of a budget does not cover one more call."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(f"the budget of {resource} does not cover one more call")
        self.resource: Resource = resource


class NoMoreCalls(Exception):
    """This worker, or this attempt at an activity, begins no further calls."""


class Meter(Protocol):
    """What a ticket can do."""

    async def reserve(self, bound: Bound) -> Amount | None:
        """Set the most that a call can take aside. Raises BudgetExhausted when there is not so much left."""
        ...

    def expected(self, stated: Amount | None) -> Amount | None:
        """What a call takes at most: as stated, else by what such calls took so far; None when nothing is known."""
        ...

    def settle(self, reserved: Amount | None, actual: Amount) -> None:
        """The call took this."""
        ...

    def lose(self, reserved: Amount | None) -> None:
        """The call may have been paid for, nobody knows how much."""
        ...


class Beginning(Protocol):
    """What stands between the decision to make a call and the call."""

    async def permit(self) -> None:
        """Return when the call may begin. Raises NoMoreCalls when it may not."""
        ...

    def begins(self) -> None:
        """It is made now. Said by whichever thread makes it."""
        ...

    def cost_nothing(self) -> None:
        """It was refused before anything was paid."""
        ...


class _Free:
    """For calls that nobody stands before."""

    async def permit(self) -> None:
        return

    def begins(self) -> None:
        return

    def cost_nothing(self) -> None:
        return


_reservation: ContextVar[Meter | None] = ContextVar("ticket", default=None)
_FREE = _Free()
_beginning: ContextVar[Beginning | None] = ContextVar("beginning", default=None)


@contextmanager
def carrying(reservation: Meter | None) -> Iterator[None]:
    """Everything that is called in this block is paid for with the ticket."""
    token = _reservation.set(reservation)
    try:
        yield
    finally:
        _reservation.reset(token)


@contextmanager
def beginning(how: Beginning) -> Iterator[None]:
    """Every call in this block begins only as it permits, and is told to it."""
    token = _beginning.set(how)
    try:
        yield
    finally:
        _beginning.reset(token)


class Call:
    """One call while it is made."""

    def __init__(self, begins: Callable[[], None] = lambda: None) -> None:
        self.actual: Amount | None = None
        self.begins = begins
        """Said where the call leaves this process, or the user's code is entered."""

    def took(self, tokens: int, cost: float) -> None:
        """What it really took."""
        self.actual = Amount(tokens=tokens, cost=cost)


@asynccontextmanager
async def metered(bound: Bound) -> AsyncIterator[Call]:
    """A call within its reservation. One that ends without saying what it took counts as having taken the most."""
    reservation, before = _reservation.get(), _beginning.get() or _FREE
    call = Call(before.begins)
    reserved = await reservation.reserve(bound) if reservation is not None else None
    try:
        await before.permit()
        yield call
    except BaseException as error:
        call.actual = call.actual or _billed_with(error)
        if call.actual == NOTHING:
            before.cost_nothing()
        raise
    finally:
        if reservation is None:
            pass
        elif call.actual is None:
            reservation.lose(reserved)
        else:
            reservation.settle(reserved, call.actual)


def at_most(stated: AtMost | None) -> Bound:
    """The most that a call takes by what the spec says of it, else by what such calls took so far."""
    reservation = _reservation.get()
    known = None if stated is None else Amount(tokens=stated.tokens, cost=stated.cost)
    return lambda: NOTHING if reservation is None else reservation.expected(known)


def _billed_with(error: BaseException) -> Amount | None:
    """What a call took that ended with an error; None when nobody knows."""
    if isinstance(error, NoMoreCalls):
        return NOTHING
    if not isinstance(error, Fault):
        return None
    if error.tokens or error.cost:
        return Amount(tokens=error.tokens, cost=error.cost)
    return NOTHING if error.billed == "no" else None
