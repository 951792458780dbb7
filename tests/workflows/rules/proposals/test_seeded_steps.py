"""A step leads to a neighbour: never out of the domain, never to where it started."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ratchet._formats.canonical import canonical_json, normalize
from tests.support.spec_building import factor
from workflows.model.spec.factors import Factor
from workflows.rules.proposals.seeded_steps import can_step, step
from workflows.rules.proposals.validation import refuse_value

seeds = st.integers(0, 2**63 - 1)
json_scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2)
finite = st.floats(allow_nan=False, allow_infinity=False)


def _assert_steps(made: Factor, seed: int) -> None:
    random, value = Random(seed), normalize(made.value)
    for _ in range(10):
        moved = normalize(step(value, made, random))
        assert canonical_json(moved) != canonical_json(value)
        assert refuse_value("it", moved, made) is None
        value = moved


@given(finite, finite, finite, st.none() | st.floats(1e-300, 1e300), seeds)
def test_numbers(one: float, two: float, three: float, size: float | None, seed: int) -> None:
    low, value, high = sorted([one, two, three])
    assume(low < high)
    _assert_steps(factor(change="structured", type="number", value=value, min=low, max=high, step=size), seed)


@given(st.integers(), st.integers(), st.integers(), st.none() | st.integers(1, 10**6), seeds)
def test_integers(one: int, two: int, three: int, size: int | None, seed: int) -> None:
    low, value, high = sorted([one, two, three])
    assume(low < high)
    _assert_steps(factor(change="structured", type="integer", value=value, min=low, max=high, step=size), seed)


@given(st.lists(json_scalars, min_size=2, max_size=6, unique_by=canonical_json), seeds)
def test_choices_and_orders(values: list[Any], seed: int) -> None:
    _assert_steps(factor(change="structured", type="choice", value=values[0], choices=values), seed)
    _assert_steps(factor(change="structured", type="order", value=values), seed)


@given(st.booleans(), seeds)
def test_flags(value: bool, seed: int) -> None:
    _assert_steps(factor(change="structured", type="flag", value=value), seed)


def test_choices_that_only_python_takes_for_equal_can_be_stepped_between() -> None:
    made = factor(change="structured", type="choice", value=1, choices=[1, True])
    assert step(1, made, Random(0)) is True


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1e-15), (1e-15, 2e-15), (0.0, 0.1234567890123456), (1e15, 1e15 + 1), (-1e308, 1e308)]
)
def test_tiny_and_huge_domains_are_not_left(low: float, high: float) -> None:
    for seed in range(50):
        _assert_steps(factor(change="structured", type="number", value=low, min=low, max=high), seed)


@given(seeds)
def test_the_same_seed_gives_the_same_steps(seed: int) -> None:
    made = factor(change="structured", type="number", value=0.5, min=0, max=1)
    assert step(0.5, made, Random(seed)) == step(0.5, made, Random(seed))


def test_a_number_moves_by_one_to_three_steps_and_in_both_directions() -> None:
    made = factor(change="structured", type="number", value=0.5, min=0, max=1, step=0.1)
    assert {step(0.5, made, Random(seed)) for seed in range(200)} == {0.2, 0.3, 0.4, 0.6, 0.7, 0.8}


@pytest.mark.parametrize(
    ("definition", "possible"),
    [
        ({"type": "flag", "value": True}, True),
        ({"type": "choice", "value": "a", "choices": ["a"]}, False),
        ({"type": "choice", "value": "a", "choices": ["a", "b"]}, True),
        ({"type": "order", "value": ["a"]}, False),
        ({"type": "order", "value": ["a", "b"]}, True),
        ({"type": "number", "value": 1, "min": 1, "max": 1}, False),
        ({"type": "integer", "value": 1, "min": 0, "max": 1}, True),
        ({"type": "json", "value": 1, "schema": {}}, False),
    ],
)
def test_only_a_factor_with_neighbours_can_step(definition: dict[str, Any], possible: bool) -> None:
    assert can_step(factor(change="structured", **definition)) is possible


def test_text_and_frozen_factors_have_no_steps() -> None:
    for made in (factor(change="text", value="a"), factor(value=1)):
        assert not can_step(made)
        with pytest.raises(TypeError, match="has no steps"):
            step("a", made, Random(0))
