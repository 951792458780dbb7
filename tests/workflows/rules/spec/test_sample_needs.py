"""What scorers cannot compare with is told before anything is paid for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from workflows.model.spec.extensions.scorer_options import Scorer
from workflows.rules.spec.sample_needs import unusable_expectations


def problems(expected: Any, **scorer: Any) -> list[str]:
    return list(unusable_expectations([TypeAdapter[Scorer](Scorer).validate_python(scorer)], expected))


COMPARING = ("exact", "classification", "contains", "starts_with", "regex", "levenshtein", "rouge", "bleu")


@pytest.mark.parametrize("kind", COMPARING)
def test_who_compares_needs_something_to_compare_with(kind: str) -> None:
    assert problems(None, kind=kind) == [f"is missing, which scorers[0] ({kind}) needs; correct it, or use another scorer"]
    assert problems("text", kind=kind) == []


@pytest.mark.parametrize(
    "scorer",
    [
        {"kind": "contains", "values": ["a"]},
        {"kind": "regex", "pattern": "a"},
        {"kind": "json"},
        {"kind": "latency", "at_most": 5},
        {"kind": "rubric", "rubric": "good", "model": "m"},
        {"kind": "reported"},
        {"kind": "python", "ref": "m:f"},
    ],
)
def test_who_brings_its_own_measure_needs_nothing(scorer: dict[str, Any]) -> None:
    assert problems(None, **scorer) == []


@pytest.mark.parametrize(("expected", "fits"), [(3, True), ("1,234.5", True), (" 7 ", True), ("fox", False), (True, False)])
def test_numbers_are_compared_with_numbers(expected: Any, fits: bool) -> None:
    told = [] if fits else ["is no number, which scorers[0] (numeric) needs; correct it, or use another scorer"]
    assert problems(expected, kind="numeric") == told


@pytest.mark.parametrize("expected", ["((", 3, ["a"]])
def test_an_expected_pattern_has_to_compile(expected: Any) -> None:
    assert problems(expected, kind="regex")[0].startswith("is no regular expression, which scorers[0] (regex) needs")


def test_members_of_combined_scorers_are_asked_too() -> None:
    nested = {"kind": "all_of", "scorers": [{"kind": "json"}, {"kind": "numeric"}]}
    assert problems("fox", **nested)[0].startswith("is no number, which scorers[0].scorers[1] (numeric) needs")
    assert problems([], kind="rouge")[0].startswith("is an empty list, but a text is what scorers[0] (rouge) needs")
