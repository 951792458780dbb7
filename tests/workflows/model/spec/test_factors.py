"""Factors: how a configuration is written, and what each kind of factor accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ratchet._formats.canonical import normalize
from ratchet.domains import is_one_of
from tests.support.spec_building import factor, request
from workflows.model.spec.factors import (
    ChoiceFactor,
    FlagFactor,
    FrozenFactor,
    IntegerFactor,
    JsonFactor,
    NumberFactor,
    OrderFactor,
    TextFactor,
    as_factor_definition,
)
from workflows.model.spec.request import OptimizationRequest


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("gpt", "gpt"),
        (3, 3),
        (None, None),
        ([1, 2], [1, 2]),
        ({"a": 1}, {"a": 1}),
        ({"value": "gpt"}, "gpt"),
        ({"change": "frozen", "value": 3}, 3),
        ({}, {}),
    ],
)
def test_a_bare_value_is_a_frozen_factor(written: Any, value: Any) -> None:
    made = request(configuration={"it": written}).configuration["it"]
    assert isinstance(made, FrozenFactor)
    assert made.value == value


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        ({"value": "a", "change": "text"}, TextFactor),
        ({"value": 1, "change": "structured", "type": "number", "min": 0, "max": 2}, NumberFactor),
        ({"value": 1, "change": "structured", "type": "integer", "min": 0, "max": 2}, IntegerFactor),
        ({"value": "a", "change": "structured", "type": "choice", "choices": ["a", "b"]}, ChoiceFactor),
        ({"value": [1, 2], "change": "structured", "type": "order"}, OrderFactor),
        ({"value": True, "change": "structured", "type": "flag"}, FlagFactor),
        ({"value": {"a": 1}, "change": "structured", "type": "json", "schema": {"type": "object"}}, JsonFactor),
    ],
)
def test_every_kind_of_factor_can_be_written_and_survives_the_wire(definition: dict[str, Any], kind: type) -> None:
    made = request(configuration={"it": definition})
    assert isinstance(made.configuration["it"], kind)
    assert OptimizationRequest.model_validate_json(made.model_dump_json(by_alias=True)) == made


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-1000, 1000) | st.text("abc", max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=2),
        max_leaves=5,
    )
)
def test_any_value_can_be_frozen(value: Any) -> None:
    assert request(configuration={"it": value}).baseline == {"it": value}


def test_a_definition_stays_what_it_is() -> None:
    made = factor(value="a", change="text")
    assert as_factor_definition(made) is made


def test_text_is_normalized_when_it_enters() -> None:
    assert factor(value="a\r\ne\u0301", change="text").value == "a\né"
    assert request(configuration={"it": ["a\r\nb", 1.0]}).baseline == {"it": ["a\nb", 1]}


def test_the_length_of_a_text_is_counted_after_normalizing() -> None:
    assert factor(value="e\u0301", change="text", max_length=1).value == "é"


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_an_initial_text_cannot_be_empty(blank: str) -> None:
    with pytest.raises(ValidationError, match="Factor value cannot be empty"):
        factor(value=blank, change="text")


def test_an_initial_text_cannot_be_too_long() -> None:
    with pytest.raises(ValidationError, match=r"Factor value exceeds max length 3 \(was 4\)"):
        factor(value="abcd", change="text", max_length=3)


@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize("value", [-1, 6])
def test_an_initial_number_must_be_in_its_range(kind: str, value: int) -> None:
    with pytest.raises(ValidationError, match="is outside min"):
        factor(value=value, change="structured", type=kind, min=0, max=5)


def test_a_range_may_be_a_single_point_and_includes_its_ends() -> None:
    assert factor(value=5, change="structured", type="integer", min=5, max=5).value == 5
    assert factor(value=0.0, change="structured", type="number", min=0, max=1).value == 0


@pytest.mark.parametrize(
    ("value", "choices", "expected"),
    [(1, [1.0, 2], True), (True, [1, 2], False), (0, [False], False), ("é", ["e\u0301"], True), (None, [None], True)],
)
def test_choices_are_told_apart_as_json_does(value: Any, choices: list[Any], expected: bool) -> None:
    assert is_one_of(value, choices) is expected


def test_choices_that_only_python_takes_for_equal_are_two() -> None:
    made = factor(value=1, change="structured", type="choice", choices=[1, True])
    assert isinstance(made, ChoiceFactor)
    assert made.choices == [1, True]


def test_choices_that_json_takes_for_equal_are_one() -> None:
    with pytest.raises(ValidationError, match="same value twice"):
        factor(value=1, change="structured", type="choice", choices=[1, 1.0])


def test_an_order_has_distinct_items() -> None:
    with pytest.raises(ValidationError, match="same item twice"):
        factor(value=["a", "a"], change="structured", type="order")


def test_a_flag_is_true_or_false_and_nothing_like_it() -> None:
    for value in ("yes", 1, 0, "true"):
        with pytest.raises(ValidationError):
            factor(value=value, change="structured", type="flag")


def test_a_baseline_holds_every_factor_in_the_order_of_the_spec() -> None:
    made = request(configuration={"b": 1, "a": {"value": "x", "change": "text"}})
    assert list(made.baseline) == ["b", "a"]
    assert made.changeable == ("a",)
    assert normalize(made.baseline) == {"a": "x", "b": 1}
