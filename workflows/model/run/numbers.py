"""How large numbers may be: all that is ever computed from them stays finite, and fits where it is stored."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

LARGEST_SCORE: Final = 1e30
"""Of either sign. Its square and fourth power, which variances are made of, are numbers, too."""

ScoreValue = Annotated[float, Field(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]
Positive = Annotated[float, Field(gt=0, le=LARGEST_SCORE)]
Weight = Positive
Distance = Annotated[float, Field(ge=0, le=LARGEST_SCORE)]
"""Between two scores."""

Cost = Annotated[float, Field(ge=0, le=1e15)]
"""Money."""

Count = Annotated[int, Field(ge=0, le=10**15)]
"""Of tokens, calls or trials."""
