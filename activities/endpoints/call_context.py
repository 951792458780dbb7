"""The context of a call: for which run it is made, what pays for it, what permits it, and whose effort it is part of.

Whoever evaluates a sample, or asks for a proposal, makes one. It is handed on to everything that is called on its behalf, a
judge of the answer included, and goes with each call through limits, budget, breaker and gate. Only the user's own code cannot
be handed one: what that may know, its experiment, `ratchet.current_experiment` tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from activities.concurrency.in_flight_limits import NOBODY, Caller
from activities.endpoints.breaker import Effort
from activities.plugins.printed_text import PrintedText
from workflows.model.run.amounts import Amount

Bound = Callable[[], Amount | None]
"""The most that a call can take, as far as is known by now; None when nothing is."""


class Meter(Protocol):
    """What a call's share of a budget can do."""

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


class KeptTurn(Protocol):
    """One turn of a conversation, with what came of its calls of tools so far."""

    content: Any
    tokens: int
    cost: float
    results: dict[int, Any]


class TurnKeeper(Protocol):
    """What keeps a conversation as it comes, so that whoever goes on after a kill knows it."""

    key: str
    """What tells this conversation from every other, and is the same for all attempts at it."""

    @property
    def kept(self) -> Sequence[KeptTurn]:
        """What attempts before have kept."""
        ...

    async def keep(self, turn: int, content: Any, tokens: int, cost: float, *, goes_on: bool) -> KeptTurn:
        """Keep a turn, and return the one that counts. `goes_on` says that another call of a model may follow."""
        ...

    async def begin_call(self, turn: int, call: int) -> bool:
        """Note that a call with effects is about to be made; False when another attempt was about to."""
        ...

    async def keep_result(self, turn: int, call: int, result: Any) -> Any:
        """Keep what came of a call, and return the result that counts."""
        ...


class _Free:
    """For calls that nobody stands before."""

    async def permit(self) -> None:
        return

    def begins(self) -> None:
        return

    def cost_nothing(self) -> None:
        return


FREE: Final = _Free()


@dataclass(frozen=True, slots=True)
class CallContext:
    """Say on whose behalf calls are made. Without anything said, nobody's: such calls are under no run's limits and budget."""

    caller: Caller = NOBODY
    meter: Meter | None = None
    """What pays; without a budget nothing is metered."""
    beginning: Beginning = FREE
    effort: Effort | None = None
    """What a breaker hears of; without one nobody is held up."""
    printed: PrintedText = field(default_factory=PrintedText)
    """What the user's own code prints."""
    turns: TurnKeeper | None = None
    """What keeps the conversation that the call is part of; without it nobody does."""
