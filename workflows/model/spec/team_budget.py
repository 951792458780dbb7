"""What a team may spend in a month, as whoever runs the servers writes it."""

from __future__ import annotations

from ratchet._frozen import SpecPart
from workflows.model.run.amounts import Amount
from workflows.model.run.numbers import Cost, Count


class TeamBudget(SpecPart):
    """What all runs of a team may spend together in a calendar month (UTC). 0 is unlimited."""

    cost: Cost = 0.0
    """Money, in the currency of the specs' `prices`."""
    tokens: Count = 0
    """Tokens of targets, judges and proposers, in and out."""
    samples: Count = 0
    """Target calls that are paid for."""

    @property
    def amount(self) -> Amount:
        """The limits of all three."""
        return Amount(samples=self.samples, tokens=self.tokens, cost=self.cost)


class TeamBudgetChange(SpecPart):
    """New limits of a team; what is left out stays."""

    cost: Cost | None = None
    tokens: Count | None = None
    samples: Count | None = None
