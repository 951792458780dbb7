"""What leases and the store say to each other about budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from workflows.model.run.amounts import NOTHING, Amount, Resource
from workflows.model.run.team_rest import TeamRest

SECONDS_UNTIL_STALE: Final = 30
"""What its holder has not renewed for so long still counts, but nobody waits for it, and another attempt may take it over."""


@dataclass(frozen=True, slots=True)
class LeaseKey:
    """Whose lease it is. Of several attempts at the same work, only the newest one's counts."""

    run_id: str
    holder: str
    attempt: int
    nonce: str
    candidate_id: str = ""
    trial_id: str = ""
    confirming: bool = False
    """The confirmation may spend what everybody else leaves for it."""
    lasts: float = 0.0
    """Seconds for which others wait for what it holds although nobody renews it."""
    left_open: tuple[tuple[int, int], ...] | None = None
    """How many calls each attempt before has begun and not stored, where that is known: the rest was set aside in vain."""


Second = Mapping[int, Amount]
"""What was paid for answers, by their numbers, that another attempt was faster with: nobody needs them."""


@dataclass(frozen=True, slots=True)
class LeaseBalance:
    """Where a lease stands; written whole, so that writing it twice changes nothing."""

    held: Amount = NOTHING
    """What may still be spent, or is being spent, without asking again."""
    spent: Amount = NOTHING
    lost: Amount = NOTHING
    """What calls that said nothing of what they took can have taken at most."""
    dearest: Amount | None = None
    """The most that one sample took."""
    exceeded: int = 0
    """Calls that took more than was set aside for them."""
    exclusive: bool = False
    """A call is at work of which nobody knows what it takes: everybody else waits."""
    idle: bool = False
    """Nothing is at work: what is held will not come back by waiting for it."""
    waiting: bool = False
    """Everything that is begun waits for more: unless it comes, what is held is given back."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """What a lease asks for."""

    needed: Amount = NOTHING
    welcome: Amount = NOTHING
    """What it would take at once if there is so much, to ask less often."""
    exclusive: bool = False
    """Nothing is known of what the call takes: nobody else may spend meanwhile."""
    again: bool = False
    """The worker has leased before: when its lease is gone, somebody else has settled it."""
    spare: Amount = NOTHING
    """Of what is held already: it is given back when the request is refused."""


@dataclass(frozen=True, slots=True)
class Leased:
    """What the store answers."""

    granted: Amount = NOTHING
    short_of: Resource | None = None
    """Set when not even what is needed was left, or when others must be waited for."""
    others_at_work: bool = False
    """Others hold something, of which some may come back."""
    dearest: Amount | None = None
    """The most that one sample of the run took."""
    limited: tuple[Resource, ...] = ("tokens", "cost")
    """What is, by the run's budget or its team's."""
    team_rest: TeamRest | None = None
    """Set when it was the team's month that had too little left."""

    @property
    def counts_money(self) -> bool:
        """Whether tokens or cost are limited."""
        return "tokens" in self.limited or "cost" in self.limited


class LeaseTaken(RuntimeError):
    """A newer attempt at the same work is at it; this one must not go on."""
