"""What a spec says of the most that one call can take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from workflows.model.frozen import SpecPart


class AtMost(SpecPart):
    """What one target call takes at most. A budget sets it aside before the call; a call that takes more is counted in full,
    and the report says so."""

    tokens: Annotated[int, Field(ge=0)] = 0
    """In and out."""
    cost: Annotated[float, Field(ge=0)] = 0.0
    """In the currency of `budget.cost`."""

    @model_validator(mode="after")
    def _says_something(self) -> AtMost:
        if not self.model_fields_set:
            raise ValueError("says nothing; give tokens, cost or both")
        return self
