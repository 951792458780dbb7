"""What scorers need of a sample's `expected`: what cannot be scored is refused before its first answer is paid for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from workflows.model.spec.extraction import pattern_problem
from workflows.model.spec.scorers import (
    BleuScorer,
    ClassificationScorer,
    ContainsScorer,
    ExactScorer,
    LevenshteinScorer,
    NumericScorer,
    RegexScorer,
    RougeScorer,
    Scorer,
    SimilarityScorer,
    StartsWithScorer,
    placed_scorers,
)

_LIKENESS = (LevenshteinScorer, RougeScorer, BleuScorer, SimilarityScorer)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


def unusable_expectations(scorers: Sequence[Scorer], expected: Any) -> Iterator[str]:
    """Why scorers cannot compare with it: `is missing, which scorers[0] (exact) needs; add it, or use another scorer`."""
    for place, scorer in placed_scorers(scorers):
        problem = _problem(scorer, expected)
        if problem is not None:
            yield f"{problem} {place} ({getattr(scorer, 'kind', '')}) needs; correct it, or use another scorer"


def _problem(scorer: Scorer, expected: Any) -> str | None:
    if not _compares(scorer):
        return None
    if expected is None:
        return "is missing, which"
    if isinstance(scorer, NumericScorer) and finite_number(expected) is None:
        return "is no number, which"
    if isinstance(scorer, RegexScorer) and not _is_pattern(expected):
        return "is no regular expression, which"
    return "is an empty list, but a text is what" if isinstance(scorer, _LIKENESS) and expected == [] else None


def _compares(scorer: Scorer) -> bool:
    if isinstance(scorer, ContainsScorer | StartsWithScorer):
        return scorer.values is None
    if isinstance(scorer, RegexScorer):
        return scorer.pattern is None
    return isinstance(scorer, (ExactScorer, ClassificationScorer, NumericScorer, *_LIKENESS))


def _is_pattern(expected: Any) -> bool:
    return isinstance(expected, str) and pattern_problem(expected) is None


def finite_number(value: Any) -> float | None:
    """A finite number, or text that is one; `1,234.5` too, since models write so."""
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
