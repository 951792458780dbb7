"""What a spec says of the most that one call can take."""

from __future__ import annotations

from pydantic import model_validator

from ratchet._frozen import SpecPart
from workflows.model.run.numbers import Cost, Count


class AtMost(SpecPart):
    """What one target call takes at most. A budget sets it aside before the call; a call that takes more is counted in full,
    and the report says so."""

    tokens: Count = 0
    """In and out."""
    cost: Cost = 0.0
    """In the currency of `budget.cost`."""

    @model_validator(mode="after")
    def _says_something(self) -> AtMost:
        if not self.model_fields_set:
            raise ValueError("says nothing; give tokens, cost or both")
        return self
