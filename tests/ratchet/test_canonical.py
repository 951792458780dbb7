"""Canonical form: equal values give equal bytes, and nothing gets in that a store or a wire would lose."""

from __future__ import annotations

import json
import math
import sys
import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet._formats.canonical import NotCanonical, canonical_json, content_hash, derive_seed, normalize, normalize_text

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
keys = texts.map(normalize_text)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@given(values)
def test_normalizing_twice_is_normalizing_once(value: Any) -> None:
    once = normalize(value)
    assert normalize(once) == once
    assert canonical_json(once) == canonical_json(value)


@given(values)
def test_canonical_text_survives_the_wire(value: Any) -> None:
    assert canonical_json(json.loads(canonical_json(value))) == canonical_json(value)


@given(values, values)
def test_hashes_are_equal_exactly_when_canonical_texts_are(one: Any, other: Any) -> None:
    assert (content_hash(one) == content_hash(other)) == (canonical_json(one) == canonical_json(other))


def _told_apart(value: Any) -> Any:
    """The value for Python's `==`, which alone takes True for 1."""
    match value:
        case bool():
            return ("bool", value)
        case dict():
            return {key: _told_apart(item) for key, item in value.items()}
        case list():
            return [_told_apart(item) for item in value]
    return value


@given(values, values)
def test_canonical_texts_are_equal_exactly_when_the_normalized_values_are(one: Any, other: Any) -> None:
    assert (canonical_json(one) == canonical_json(other)) == (_told_apart(normalize(one)) == _told_apart(normalize(other)))


@given(st.dictionaries(keys, values, max_size=6), st.randoms())
def test_the_order_of_keys_does_not_count(mapping: dict[str, Any], random: Any) -> None:
    items = list(mapping.items())
    random.shuffle(items)
    assert canonical_json(dict(items)) == canonical_json(mapping)


@given(texts)
def test_neither_line_ends_nor_unicode_forms_count(text: str) -> None:
    windows = text.replace("\r", "").replace("\n", "\r\n")
    unix = text.replace("\r", "")
    assert canonical_json(windows) == canonical_json(unix)
    assert canonical_json(unicodedata.normalize("NFD", text)) == canonical_json(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0, -0.0),
        (10**20, 1e20),
        (2**53, 2.0**53),
        ("é", "e\u0301"),
        ("a\nb", "a\r\nb"),
        ("a\nb", "a\rb"),
        ({"a": 1, "b": [1.0]}, {"b": [1], "a": 1}),
        ([1, 2], (1, 2)),
        ({"é": 1}, {"e\u0301": 1}),
    ],
)
def test_notations_of_one_value_have_one_hash(one: Any, other: Any) -> None:
    assert content_hash(one) == content_hash(other)


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (None, "null"), (1, "1"), (0.1, 0.2), ([1, 2], [2, 1]), ({}, []), ("", None)]
)
def test_different_values_have_different_hashes(one: Any, other: Any) -> None:
    assert content_hash(one) != content_hash(other)


def test_the_canonical_text_is_as_documented() -> None:
    assert canonical_json({"b": 1.0, "a": ["é", None, True, 0.5]}) == '{"a":["é",null,true,0.5],"b":1}'
    assert content_hash({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "nan is not a finite number"),
        ([math.inf], "inf is not a finite number"),
        ("a\x00b", "text contains a NUL character; remove it"),
        ("ab\ud800", "text contains a lone surrogate at position 2; remove it"),
        ({1: 2}, "key 1 is not text; quote it"),
        ({"é": 1, "e\u0301": 2}, "two keys are both 'é' once their text is normalized"),
        (b"x", "bytes is not a JSON value; use text, numbers, booleans, lists or mappings"),
        ({1, 2}, "set is not a JSON value; use text, numbers, booleans, lists or mappings"),
        (10**309, "a whole number of more than 308 digits is too large; write it as text"),
        pytest.param(-(10**6000), "a whole number of more than 308 digits is too large; write it as text", id="endless"),
        (_nested(101), "is nested more than 100 levels deep; flatten it"),
        (_nested(5000), "is nested more than 100 levels deep; flatten it"),
    ],
)
def test_what_has_no_canonical_form_is_refused_in_words(value: Any, message: str) -> None:
    with pytest.raises(NotCanonical) as refused:
        canonical_json(value)
    assert str(refused.value) == message


def test_the_largest_and_deepest_values_that_are_allowed_pass() -> None:
    assert normalize(int(sys.float_info.max)) == normalize(sys.float_info.max)
    assert normalize(_nested(100)) == _nested(100)


def test_subclasses_of_plain_types_become_plain() -> None:
    class Name(str):
        pass

    class Number(int):
        pass

    class Real(float):
        pass

    assert [type(normalize(value)) for value in (Name("a"), Number(1), Real(0.5))] == [str, int, float]


def test_numbers_of_an_array_library_are_plain_numbers_and_arrays_are_none() -> None:
    given = {"whole": np.int64(3), "real": np.float32(0.5), "flag": np.bool_(True), "single": np.array(7)}
    normalized = normalize(given)
    assert normalized == {"flag": True, "real": 0.5, "single": 7, "whole": 3}
    assert [type(value) for value in dict(normalized).values()] == [bool, float, int, int]
    assert content_hash(np.int64(3)) == content_hash(3.0)
    for value, told in (
        (np.array([1]), "ndarray is not"),
        (np.float32(math.nan), "nan is not"),
        (np.datetime64("2026"), "date is"),
    ):
        with pytest.raises(NotCanonical, match=told):
            normalize(value)


def test_seeds_depend_on_the_seed_and_every_part_and_fit_63_bits() -> None:
    seeds = {derive_seed(7, "step", 1), derive_seed(8, "step", 1), derive_seed(7, "step", "1"), derive_seed(7, "step", 2)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(7, "step", 1) == 5008633053239781068
