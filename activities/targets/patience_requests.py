"""A target that asks for patience with an endpoint of its own: what it said of it, as one of our faults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from activities.secret_texts import without_secrets
from activities.targets.faults import Throttled, Unreachable
from workflows.model.failures import one_line, shorten
from workflows.model.run.amounts import MOST_COST, MOST_TOKENS

TRY_AGAIN: Final = "try again"

LONGEST_AFTER_SECONDS: Final = 3600.0
"""Whoever asks for more is asked again after this."""


def patience_asked_for(why: str, told: Mapping[str, Any]) -> Unreachable:
    """`ratchet.TryAgain` as a fault. What makes no sense of what it says is taken for unsaid."""
    said = without_secrets(shorten(one_line(why)))
    message = f"the target asks to try again{f': {said}' if said else ''}"
    after = _number(told.get("after"), LONGEST_AFTER_SECONDS)
    fault: Unreachable
    fault = Unreachable(message, kind=TRY_AGAIN) if after is None else Throttled(message, after, kind=TRY_AGAIN)
    fault.billed = told["billed"] if told.get("billed") in ("no", "yes") else "unknown"
    fault.tokens = int(_number(told.get("tokens"), MOST_TOKENS) or 0)
    fault.cost = _number(told.get("cost"), MOST_COST) or 0.0
    return fault


def _number(value: Any, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(min(value, most))
