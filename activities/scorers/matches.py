"""The built-in scorers that only compare: exact, classification, contains, starts_with, numeric, and those of what an answer
took. Pure functions of an output and a sample."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from activities.scorers.grades import LONGEST_LABEL, Grade, clean, hit_or_miss
from ratchet import Output, Sample, Score
from ratchet._formats.canonical import NotCanonical, canonical_json
from ratchet._text.placeholders import as_text
from workflows.model.failures import cut
from workflows.model.run.numbers import finite_number
from workflows.model.spec.extensions.scorer_options import LabelRules, Scorer
from workflows.model.spec.scorers.matches import (
    ClassificationScorer,
    ContainsScorer,
    ExactScorer,
    NumericScorer,
    StartsWithScorer,
)
from workflows.model.spec.scorers.measurements import CostScorer, LatencyScorer, MeasurementScorer, TokensScorer
from workflows.rules.scoring.classification import folded
from workflows.rules.scoring.objective_score import ScoringFailed

SHOWN = 300
"""Characters of a value that feedback repeats."""

SHOWN_OF_A_DIFFERENCE = 120
"""Characters of each text that feedback shows from where two long texts part."""


def shown(value: Any) -> str:
    """A value as feedback shows it."""
    return cut(as_text(value), SHOWN)


def expected_of(sample: Sample, kind: str) -> Any:
    """What the sample expects; without it there is nothing to compare with, and that is nobody's answer's fault."""
    if sample.expected is None:
        raise ScoringFailed(
            f"sample {sample.id!r} has no expected value, which scorer {kind!r} needs; "
            "add it to the dataset or use another scorer"
        )
    return sample.expected


def exact(scorer: ExactScorer, output: Output, sample: Sample) -> Grade:
    expected = expected_of(sample, scorer.kind)
    given, wanted = _comparable(output.value, expected, scorer), _comparable(expected, expected, scorer)
    return hit_or_miss(scorer, given == wanted, difference(given, wanted), f"equals {shown(expected)}")


def difference(given: str, expected: str) -> str:
    """Short texts side by side; of long ones the place where they part."""
    if len(given) <= SHOWN and len(expected) <= SHOWN:
        return f"expected {expected}, got {given}"
    same = next((place for place, pair in enumerate(zip(given, expected, strict=False)) if len(set(pair)) > 1), None)
    place = min(len(given), len(expected)) if same is None else same
    start = max(0, place - 20)
    parts = (cut(text[start:], SHOWN_OF_A_DIFFERENCE) or "nothing" for text in (expected, given))
    return "differs from what is expected from character {} on: expected {!r}, got {!r}".format(place + 1, *parts)


def classification(scorer: ClassificationScorer, output: Output, sample: Sample) -> Grade:
    expected, given = expected_label(scorer, scorer.label_rules, sample), folded(as_text(output.value), scorer.ignore_case)
    grade = hit_or_miss(scorer, given == expected, f"expected {shown(expected)}, got {shown(given)}", f"is {shown(expected)}")
    return replace(grade, labels=(kept_label(given), kept_label(expected)))


def expected_label(scorer: Scorer, rules: LabelRules, sample: Sample) -> str:
    """The label a sample expects, as it is counted; known also of samples whose answer failed."""
    return folded(as_text(expected_of(sample, scorer.kind)), rules.ignore_case)


def kept_label(text: str) -> str:
    """As it is stored: an answer that is no label at all may be very long."""
    return cut(clean(text), LONGEST_LABEL)


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


def contains(scorer: ContainsScorer, output: Output, sample: Sample) -> Grade:
    parts, text, fold = _wanted(scorer, sample), as_text(output.value), _fold(scorer)
    found = [part for part in parts if fold(part) in fold(text)]
    hit = len(found) == len(parts) if scorer.mode == "all" else bool(found)
    lacking = [part for part in parts if part not in found]
    return hit_or_miss(scorer, hit, f"does not contain {_listed(lacking)}", f"contains {_listed(found)}")


def starts_with(scorer: StartsWithScorer, output: Output, sample: Sample) -> Grade:
    parts, text, fold = _wanted(scorer, sample), as_text(output.value), _fold(scorer)
    found = [part for part in parts if fold(text).startswith(fold(part))]
    miss = f"starts with {cut(text, SHOWN_OF_A_DIFFERENCE) or 'nothing'} and not with {_listed(parts)}"
    return hit_or_miss(scorer, bool(found), miss, f"starts with {_listed(found)}")


def _wanted(scorer: ContainsScorer | StartsWithScorer, sample: Sample) -> list[str]:
    wanted = scorer.values if scorer.values is not None else expected_of(sample, scorer.kind)
    return [as_text(part) for part in wanted] if isinstance(wanted, list) else [as_text(wanted)]


def _fold(scorer: ContainsScorer | StartsWithScorer) -> Callable[[str], str]:
    return str.casefold if scorer.ignore_case else str


def _listed(parts: list[str]) -> str:
    return cut(", ".join(shown(part) for part in parts), 3 * SHOWN)


def latency(scorer: LatencyScorer, output: Output, sample: Sample) -> Grade:
    took = output.ttft_ms if scorer.until == "first_token" else output.latency_ms
    if took is None:
        raise ScoringFailed(
            f"the target told no time to its first token, which scorer {scorer.score_name!r} needs; use target.stream: true"
            if scorer.until == "first_token"
            else f"the target told no latency, which scorer {scorer.score_name!r} needs"
        )
    return measurement(scorer, took, "ms")


def cost(scorer: CostScorer, output: Output, sample: Sample) -> Grade:
    return measurement(scorer, output.cost, "in cost")


def tokens(scorer: TokensScorer, output: Output, sample: Sample) -> Grade:
    return measurement(scorer, float(output.tokens), "tokens")


def measurement(scorer: MeasurementScorer, took: float, unit: str) -> Grade:
    """A number as the score, or whether it keeps to the scorer's limit."""
    if scorer.at_most is None:
        return Grade(Score(scorer.score_name, took, passed=True))
    limit = f"{scorer.at_most:g} {unit}"
    return hit_or_miss(
        scorer, took <= scorer.at_most, f"took {took:g} {unit}, at most {limit} are wanted", f"took at most {limit}"
    )


def numeric(scorer: NumericScorer, output: Output, sample: Sample) -> Grade:
    expected = finite_number(expected_of(sample, scorer.kind))
    if expected is None:
        raise ScoringFailed(f"sample {sample.id!r} expects {shown(sample.expected)}, not a number; correct the dataset")
    given = finite_number(output.value)
    if given is None:
        return Grade(Score(scorer.score_name, 0.0, reason=f"is not a number; expected {expected:g}"))
    distance = abs(given - expected)
    tolerance = max(scorer.absolute, scorer.relative * abs(expected))
    reason = None if distance <= tolerance else f"expected {expected:g}, off by {distance:g}"
    return Grade(Score(scorer.score_name, _closeness(distance, tolerance, scorer.zero_at), reason=reason))


def _closeness(distance: float, tolerance: float, zero_at: float | None) -> float:
    if distance <= tolerance:
        return 1.0
    if zero_at is None or distance >= zero_at or zero_at <= tolerance:
        return 0.0
    return (zero_at - distance) / (zero_at - tolerance)
