"""Meter calls that cost something, where they are made: what they can take is set aside before, and settled after."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from activities.endpoints.call_context import Bound, CallContext, Meter
from activities.targets.faults import Fault
from workflows.model.run.amounts import NOTHING, Amount, Resource
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.targets.at_most import AtMost


class BudgetExhausted(Exception):
    """What is left of a budget does not cover one more call."""

    def __init__(self, resource: Resource, team_rest: TeamRest | None = None) -> None:
        super().__init__(f"the budget of {resource} does not cover one more call")
        self.resource: Resource = resource
        self.team_rest = team_rest
        """Set when it is the budget that the run's team has for the month."""


class NoMoreCalls(Exception):
    """This worker, or this attempt at an activity, begins no further calls."""


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
async def metered(context: CallContext, bound: Bound) -> AsyncIterator[Call]:
    """A call within its reservation. One that ends without saying what it took counts as having taken the most."""
    meter = context.meter
    call = Call(context.beginning.begins)
    reserved = await meter.reserve(bound) if meter is not None else None
    try:
        await context.beginning.permit()
        yield call
    except BaseException as error:
        call.actual = call.actual or _billed_with(error)
        if call.actual == NOTHING:
            context.beginning.cost_nothing()
        raise
    finally:
        if meter is None:
            pass
        elif call.actual is None:
            meter.lose(reserved)
        else:
            meter.settle(reserved, call.actual)


def at_most(meter: Meter | None, stated: AtMost | None) -> Bound:
    """The most that a call takes by what the spec says of it, else by what such calls took so far."""
    known = None if stated is None else Amount(tokens=stated.tokens, cost=stated.cost)
    return lambda: NOTHING if meter is None else meter.expected(known)


def _billed_with(error: BaseException) -> Amount | None:
    """What a call took that ended with an error; None when nobody knows."""
    if isinstance(error, NoMoreCalls):
        return NOTHING
    if not isinstance(error, Fault):
        return None
    if error.tokens or error.cost:
        return Amount(tokens=error.tokens, cost=error.cost)
    return NOTHING if error.billed == "no" else None
