"""What a run needs of every sample: what cannot be sent or scored is refused before its first answer is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ratchet._text.placeholders import placeholders
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.request import OptimizationRequest

OF_INPUT = "input."


class SampleNeeds:
    """What the target's messages refer to, and what the scorers compare with."""

    def __init__(self, request: OptimizationRequest) -> None:
        texts = [placed.text for placed in request.target.placed_texts()]
        if texts:
            texts += [str(factor.value) for factor in request.configuration.values() if isinstance(factor.value, str)]
        named = (name.removeprefix(OF_INPUT) for text in texts for name in placeholders(text) if name.startswith(OF_INPUT))
        self._fields = sorted(set(named))
        self._scorers = request.scorers

    @property
    def has_any(self) -> bool:
        """Whether there is anything that a sample could lack."""
        return bool(self._fields) or any(scorer.needs_expected for _, scorer in placed_scorers(self._scorers))

    def lacking(self, given: Any) -> str | None:
        """What the target needs of a sample's input and it has not."""
        missing = next((name for name in self._fields if not _has(given, name)), None)
        return None if missing is None else f"input has no {missing!r}, which the target needs"

    def unusable(self, expected: Any) -> str | None:
        """Why a scorer cannot compare with a sample's `expected`."""
        return next(unusable_expectations(self._scorers, expected), None)


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


def _has(given: Any, name: str) -> bool:
    return isinstance(given, dict) and name.split(".")[0] in given
