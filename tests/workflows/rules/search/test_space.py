"""The space of a search: which values there are, which of them count, and how samplers see them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from ratchet._formats.canonical import canonical_json
from ratchet.domains import misfit
from tests.support.searches import choice, flag, integer, number, order
from workflows.rules.search.parzen import internal, value_of
from workflows.rules.search.space import Space, from_unit, nth, size_of, unit_of

EVERY_KIND = {
    "plain": number(0.5),
    "log": number(0.01, 1e-5, 1, scale="log"),
    "steps": number(0.7, 0, 1, step=0.1),
    "off_steps": number(0.75, 0, 1, step=0.2),
    "whole": integer(3, 0, 9),
    "whole_log": integer(8, 1, 4096, scale="log"),
    "whole_steps": integer(5, 0, 100, step=20),
    "choice": choice("a", "b", 1, 1.5, None),
    "flag": flag(),
    "order": order("x", "y", "z"),
}


def _space(**factors: Any) -> Space:
    return Space.of(factors, {})


@pytest.mark.parametrize("name", EVERY_KIND)
def test_what_samplers_see_of_a_value_stands_for_that_value(name: str) -> None:
    factor: Any = _space(**EVERY_KIND).factors[name]
    seen = [factor.value, *([nth(factor, index) for index in range(size_of(factor) or 0)] or [from_unit(factor, 0.3)])]
    for value in seen:
        assert misfit(factor, value) is None
        again = value_of(factor, internal(factor, value))
        assert again == pytest.approx(value) if isinstance(value, float) else canonical_json(again) == canonical_json(value)


def test_steps_are_counted_from_the_initial_value_and_end_within_the_range() -> None:
    factors = _space(**EVERY_KIND).factors
    assert (size_of(factors["steps"]), size_of(factors["off_steps"])) == (11, 5)
    assert [nth(factors["off_steps"], index) for index in range(5)] == [0.15, 0.35, 0.55, 0.75, 0.95]
    assert [nth(factors["whole_steps"], index) for index in range(5)] == [5, 25, 45, 65, 85]


def test_a_logarithmic_number_is_as_far_from_its_half_as_from_its_double() -> None:
    factor: Any = _space(**EVERY_KIND).factors["log"]
    assert unit_of(factor, 1e-5) == 0
    assert unit_of(factor, 1) == 1
    assert unit_of(factor, 0.02) - unit_of(factor, 0.01) == pytest.approx(unit_of(factor, 0.01) - unit_of(factor, 0.005))


def test_an_order_has_every_permutation_once() -> None:
    factor = _space(order=order("x", "y", "z", "w")).factors["order"]
    found: Any = [nth(factor, index) for index in range(size_of(factor) or 0)]
    assert sorted(found) == sorted(map(list, permutations("xyzw")))


CONDITIONAL = {
    "top_k": integer(5, 1, 10, when={"retriever": ["bm25", "hybrid"]}),
    "weight": number(0.5, when={"retriever": ["hybrid"], "rerank": [True]}),
    "retriever": choice("none", "bm25", "hybrid"),
    "rerank": flag(when={"retriever": ["hybrid"]}),
}


def test_what_does_not_count_stays_at_its_initial_value() -> None:
    space = _space(**CONDITIONAL)
    drawn: dict[str, Any] = {"retriever": "none", "top_k": 9, "weight": 0.9, "rerank": True}
    assert space.settled(drawn) == {"retriever": "none", "top_k": 5, "weight": 0.5, "rerank": False}
    assert space.settled({**drawn, "retriever": "bm25"}) == {"retriever": "bm25", "top_k": 9, "weight": 0.5, "rerank": False}
    assert space.settled({**drawn, "retriever": "hybrid"}) == {**drawn, "retriever": "hybrid"}
    assert set(space.active(space.settled({**drawn, "retriever": "bm25"}))) == {"retriever", "top_k"}


def test_a_condition_may_name_a_factor_that_is_held() -> None:
    factors = {"top_k": integer(5, 1, 10, when={"retriever": ["bm25"]})}
    assert Space.of(factors, {"retriever": "bm25"}).settled({"top_k": 7}) == {"top_k": 7}
    assert Space.of(factors, {"retriever": "none"}).settled({"top_k": 7}) == {"top_k": 5}


def test_a_finite_space_knows_its_size() -> None:
    assert _space(a=flag(), b=order(1, 2, 3), c=number(0.5, step=0.25)).size == 2 * 6 * 5
    assert _space(a=flag(), b=number(0.5)).size is None
