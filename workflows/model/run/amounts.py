"""Amounts of what budgets count: calls, tokens and money, together, since every call takes some of each."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal

Resource = Literal["samples", "tokens", "cost"]
RESOURCES: tuple[Resource, ...] = ("samples", "tokens", "cost")

MOST_TOKENS: Final = 10**9
MOST_COST: Final = 1e9
MOST_MILLISECONDS: Final = 1e12
"""What one answer can have taken at most. Whoever reports more is mistaken, or hostile: sums of it would fit nowhere."""

LAST_DIGITS = 1e-9
"""Of a limit: what sums of floats may be off by."""


@dataclass(frozen=True, slots=True)
class Amount:
    """So many target calls, tokens and money."""

    samples: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.samples + other.samples, self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.samples - other.samples, self.tokens - other.tokens, self.cost - other.cost)

    def times(self, factor: float) -> Amount:
        """So often; whole numbers are rounded up."""
        return Amount(math.ceil(self.samples * factor), math.ceil(self.tokens * factor), self.cost * factor)

    def or_more(self, other: Amount) -> Amount:
        """The larger of each."""
        return Amount(max(self.samples, other.samples), max(self.tokens, other.tokens), max(self.cost, other.cost))

    def or_less(self, other: Amount) -> Amount:
        """The smaller of each."""
        return Amount(min(self.samples, other.samples), min(self.tokens, other.tokens), min(self.cost, other.cost))

    def not_negative(self) -> Amount:
        return self.or_more(NOTHING)

    def short_of(self, wanted: Amount, among: Collection[Resource] = RESOURCES) -> Resource | None:
        """Of what there is less than wanted; None when this covers all of it."""
        if "samples" in among and self.samples < wanted.samples:
            return "samples"
        if "tokens" in among and self.tokens < wanted.tokens:
            return "tokens"
        if "cost" in among and wanted.cost - self.cost > LAST_DIGITS * max(abs(wanted.cost), abs(self.cost)):
            return "cost"
        return None

    def __bool__(self) -> bool:
        return bool(self.samples or self.tokens or self.cost)


NOTHING = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    """All of them together."""
    listed = list(amounts)
    return Amount(
        sum(amount.samples for amount in listed),
        sum(amount.tokens for amount in listed),
        math.fsum(amount.cost for amount in listed),
    )
