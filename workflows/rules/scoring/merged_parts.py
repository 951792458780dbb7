"""Several parts of one piece of work, told as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workflows.model.trial import ShardResult
from workflows.rules.scoring.error_counts import summed


def merged(parts: Sequence[ShardResult]) -> ShardResult:
    """What all parts did together; of their errors the first, in the order of the parts."""
    short = next((part for part in parts if part.exhausted), ShardResult())
    return ShardResult(
        evaluated=sum(part.evaluated for part in parts),
        found=sum(part.found for part in parts),
        missing=sum(part.missing for part in parts),
        first_error=next((part.first_error for part in parts if part.first_error), None),
        scoring_error=next((part.scoring_error for part in parts if part.scoring_error), None),
        errors=summed(part.errors for part in parts),
        exhausted=short.exhausted,
        team_rest=short.team_rest,
        metered=any(part.metered for part in parts),
        lost=sum(part.lost for part in parts),
    )


def ending_of(parts: Sequence[ShardResult]) -> dict[str, Any]:
    """How a trial ended all of whose parts came to their end, in the fields of its conclusion."""
    whole = merged(parts)
    taken = {"metered": whole.metered, "lost": whole.lost}
    if whole.scoring_error is not None:
        return {"scoring_error": whole.scoring_error, **taken}
    short = {"exhausted": whole.exhausted, "team_rest": whole.team_rest}
    return {"error": whole.first_error, "errors": whole.errors, **short, **taken}
