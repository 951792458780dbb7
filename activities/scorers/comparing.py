"""The built-in scorers that only compare: exact, contains, numeric. Pure functions of an output and a sample."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from ratchet import Output, Sample, Score
from workflows.model.failures import shorten
from workflows.model.scorers import ContainsScorer, ExactScorer, NumericScorer
from workflows.rules.canonical import NotCanonical, canonical_json
from workflows.rules.placeholders import as_text
from workflows.rules.scoring import ScoringFailed

SHOWN = 300
"""Characters of a value that feedback repeats."""

_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")


def shown(value: Any) -> str:
    """A value as feedback shows it."""
    return shorten(as_text(value), SHOWN)


def expected_of(sample: Sample, kind: str) -> Any:
    """What the sample expects; without it there is nothing to compare with, and that is nobody's answer's fault."""
    if sample.expected is None:
        raise ScoringFailed(
            f"sample {sample.id!r} has no expected value, which scorer {kind!r} needs; "
            "add it to the dataset or use another scorer"
        )
    return sample.expected


def hit_or_miss(name: str, hit: bool, why_not: str) -> list[Score]:
    return [Score(name, 1.0 if hit else 0.0, reason=None if hit else why_not)]


def exact(scorer: ExactScorer, output: Output, sample: Sample) -> list[Score]:
    expected = expected_of(sample, scorer.kind)
    hit = _comparable(output.value, expected, scorer) == _comparable(expected, expected, scorer)
    return hit_or_miss(scorer.score_name, hit, f"expected {shown(expected)}")


def _comparable(value: Any, expected: Any, scorer: ExactScorer) -> str:
    """Text as text. Where something else is expected, text is read as JSON, which is how a chat model gives a number."""
    if isinstance(expected, str):
        text = as_text(value)
    else:
        text = canonical_json(_read_as_json(value) if isinstance(value, str) else value)
    text = text.strip() if scorer.strip else text
    return text.casefold() if scorer.ignore_case else text


def _read_as_json(text: str) -> Any:
    try:
        value = json.loads(text)
        canonical_json(value)
    except (ValueError, NotCanonical, RecursionError):
        return text
    return value


def contains(scorer: ContainsScorer, output: Output, sample: Sample) -> list[Score]:
    wanted = scorer.values if scorer.values is not None else expected_of(sample, scorer.kind)
    parts = [as_text(part) for part in wanted] if isinstance(wanted, list) else [as_text(wanted)]
    text = as_text(output.value)
    fold = str.casefold if scorer.ignore_case else str
    found = [fold(part) in fold(text) for part in parts]
    hit = all(found) if scorer.mode == "all" else any(found)
    lacking = [shown(part) for part, there in zip(parts, found, strict=True) if not there]
    return hit_or_miss(scorer.score_name, hit, f"does not contain {', '.join(lacking)}")


def numeric(scorer: NumericScorer, output: Output, sample: Sample) -> list[Score]:
    expected = _number(expected_of(sample, scorer.kind))
    if expected is None:
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(sample.expected)}, not a number; correct the dataset")
    given = _number(output.value)
    if given is None:
        return [Score(scorer.score_name, 0.0, reason=f"is not a number; expected {expected:g}")]
    distance = abs(given - expected)
    tolerance = max(scorer.absolute, scorer.relative * abs(expected))
    return [
        Score(
            scorer.score_name,
            _closeness(distance, tolerance, scorer.zero_at),
            reason=None if distance <= tolerance else f"expected {expected:g}, off by {distance:g}",
        )
    ]


def _closeness(distance: float, tolerance: float, zero_at: float | None) -> float:
    if distance <= tolerance:
        return 1.0
    if zero_at is None or distance >= zero_at or zero_at <= tolerance:
        return 0.0
    return (zero_at - distance) / (zero_at - tolerance)


def _number(value: Any) -> float | None:
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
