"""One account: what may be spent, what others took of it, and what is left for the one who asks.

A run has one, and so has a team for each month. Whoever leases takes from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from store.budget_leases import SECONDS_UNTIL_STALE, LeaseRequest
from workflows.model.run.amounts import LAST_DIGITS, RESOURCES, Amount, Resource

SECONDS_UNTIL_GIVEN_BACK = 4
"""Who has nothing at work gives back what he holds within a second. Who does not is dead, and is waited for no longer."""

TAKEN_BY_OTHERS: Final = f"""
    SELECT coalesce(sum(held_samples + spent_samples + lost_samples), 0)::bigint AS samples,
           coalesce(sum(held_tokens + spent_tokens + lost_tokens), 0)::bigint AS tokens,
           coalesce(sum(held_cost + spent_cost + lost_cost), 0) AS cost,
           coalesce(sum(spent_samples), 0)::bigint AS calls,
           coalesce(sum(spent_tokens) FILTER (WHERE trial_id <> ''), 0)::bigint AS tokens_of_calls,
           coalesce(sum(spent_cost) FILTER (WHERE trial_id <> ''), 0) AS cost_of_calls,
           max(most_tokens_per_sample) AS most_tokens_per_sample, max(most_cost_per_sample) AS most_cost_per_sample,
           coalesce(bool_or(is_there AND NOT idle), false) AS busy,
           coalesce(bool_or(gives_back AND held_samples > 0), false) AS hold_samples,
           coalesce(bool_or(gives_back AND (held_tokens > 0 OR held_cost > $3)), false) AS hold_money,
           coalesce(bool_or(is_there AND exclusive), false) AS exclusive
    FROM budget_leases
    CROSS JOIN LATERAL (
        SELECT renewed_at > now() - interval '{SECONDS_UNTIL_STALE} seconds' AS is_there,
               renewed_at > now() - CASE WHEN idle THEN interval '{SECONDS_UNTIL_GIVEN_BACK} seconds'
                                         ELSE interval '{SECONDS_UNTIL_STALE} seconds' END AS gives_back
    ) AS holder_of_it
    WHERE NOT (run_id = $1 AND holder = $2)
"""  # noqa: S608 (constants of this module)
"""Leases of others than the holder $2 of the run $1, up to a condition that says of which account. $3 is `least_cost`."""


@dataclass(frozen=True, slots=True)
class Account:
    """What may be spent, and what others than the one who asks took from it."""

    limits: Mapping[Resource, float]
    """Those that there are."""
    used: Amount
    """Spent, lost, and set aside."""
    others_busy: bool
    others_hold_samples: bool
    others_hold_money: bool
    """Also without being at work: then it is given back within a second."""
    other_exclusive: bool

    @property
    def counts_money(self) -> bool:
        """Whether tokens or cost are limited."""
        return "tokens" in self.limits or "cost" in self.limits

    def something_comes_back(self, short_of: Resource | None) -> bool:
        """Whether waiting for others may help."""
        return self.others_busy or (self.others_hold_samples if short_of == "samples" else self.others_hold_money)

    def left(self, taken: Amount) -> dict[Resource, float]:
        """Of each limited resource, beside what others took and this."""
        return {
            name: limit * (1 + LAST_DIGITS) - getattr(self.used, name) - getattr(taken, name)
            for name, limit in self.limits.items()
        }

    def rest(self, name: Resource, taken: Amount) -> float:
        """What is left of one of them, as people are told it: without the last digits that a sum may be over."""
        return max(float(self.limits[name] - getattr(self.used, name) - getattr(taken, name)), 0.0)

    def short_of(self, request: LeaseRequest, taken: Amount, *, first_alone: bool) -> Resource | None:
        """What there is too little of; None when it covers what is needed.

        Of a call of which nobody knows what it takes, it may be all that is left: everybody else waits for it. With
        `first_alone` such a call waits itself until nobody holds any money.
        """
        wants_money = request.exclusive or request.needed.tokens or request.needed.cost
        waits = self.other_exclusive or (first_alone and request.exclusive and self.others_hold_money)
        if self.counts_money and wants_money and waits:
            return "cost" if "cost" in self.limits else "tokens"
        for name, amount in self.left(taken).items():
            needed = getattr(request.needed, name)
            if (needed > 0 and needed > amount) or (request.exclusive and name != "samples" and amount <= 0):
                return name
        return None


def limits_of(row: Any) -> dict[Resource, float]:
    """The limits in a row; 0 is none."""
    return {name: row[f"limit_{name}"] for name in RESOURCES if row[f"limit_{name}"]}


def least_cost(row: Any) -> float:
    """Less than this is nothing: sums of floats that should be 0 seldom are."""
    return max(float(row["limit_cost"]), 1.0) * LAST_DIGITS
