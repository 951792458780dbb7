"""What scorers need of a sample's `expected`: what cannot be scored is refused before its first answer is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers


def unusable_expectations(scorers: Sequence[Scorer], expected: Any) -> Iterator[str]:
    """Why scorers cannot compare with it: `is missing, which scorers[0] (exact) needs; add it, or use another scorer`."""
    for place, scorer in placed_scorers(scorers):
        problem = _problem(scorer, expected)
        if problem is not None:
            yield f"{problem} {place} ({scorer.kind}) needs; correct it, or use another scorer"


def _problem(scorer: Scorer, expected: Any) -> str | None:
    if not scorer.needs_expected:
        return None
    return "is missing, which" if expected is None else scorer.unusable(expected)
