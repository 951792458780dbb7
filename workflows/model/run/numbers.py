"""How large numbers may be: all that is ever computed from them stays finite, and fits where it is stored."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final

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

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


def finite_number(value: Any) -> float | None:
    """Read a finite number, or text that is one; `1,234.5` too, since models write so."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    try:
        number = float(text)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
