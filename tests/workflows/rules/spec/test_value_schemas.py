"""Schemas of factors: they accept what JSON Schema accepts, and applying them never takes long."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.rules.spec.value_schemas import (
    LONGEST_PATTERN,
    MOST_PATTERNS,
    NotApplicable,
    SchemaWork,
    schema_problem,
    value_problem,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.5, 2.0]) | st.text("ab1", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3),
    max_leaves=6,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    small, names = st.integers(0, 3), st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)
    many, named = st.lists(inner, min_size=1, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
            | st.just(["integer", "object"]),
            "enum": st.lists(VALUES, max_size=3),
            "const": VALUES,
            "allOf": many,
            "anyOf": many,
            "oneOf": many,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "pattern": st.sampled_from(["^a", "b$", "[0-9]", "^$"]),
            "minLength": small,
            "maxLength": small,
            "prefixItems": many,
            "items": inner,
            "contains": inner,
            "minContains": small,
            "maxContains": small,
            "minItems": small,
            "maxItems": small,
            "uniqueItems": st.booleans(),
            "properties": named,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": names,
            "dependentRequired": st.dictionaries(st.sampled_from(["a", "b"]), names, max_size=2),
            "dependentSchemas": named,
            "minProperties": small,
            "maxProperties": small,
            "minimum": small,
            "maximum": small,
            "exclusiveMinimum": small,
            "exclusiveMaximum": small,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two~1three"]),
            "title": st.text(max_size=3),
        },
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=5)


@given(SCHEMAS, SCHEMAS, VALUES)
def test_a_value_is_accepted_exactly_when_json_schema_accepts_it(schema: Any, other: Any, value: Any) -> None:
    definitions = {"$defs": {"one": {"type": ["string", "integer"]}, "two/three": {"minimum": 1}}}
    whole = {"allOf": [schema, {"anyOf": [other, True]}], **definitions}
    assert schema_problem(whole, SchemaWork()) is None
    accepted = jsonschema.Draft202012Validator(whole).is_valid(value)
    assert (value_problem(whole, value, SchemaWork()) is None) == accepted


@given(SCHEMAS)
def test_a_schema_is_well_formed_exactly_when_its_meta_schema_says_so(schema: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema_problem(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        5,
        {"type": "text"},
        {"type": []},
        {"properties": []},
        {"items": [{}]},
        {"allOf": {}},
        {"minLength": -1},
        {"minLength": True},
        {"multipleOf": 0},
        {"required": [1]},
        {"required": ["a", "a"]},
        {"uniqueItems": "yes"},
        {"properties": {"a": {"not": {"enum": 1}}}},
    ],
)
def test_what_its_meta_schema_refuses_is_refused(schema: Any) -> None:
    with pytest.raises(jsonschema.SchemaError):
        jsonschema.Draft202012Validator.check_schema(schema)
    assert schema_problem(schema) is not None


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"pattern": "a{99999999999}"}, "pattern: 'a{99999999999}' is no regular expression that is matched in linear time"),
        ({"pattern": "(" * 150}, "is no regular expression"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": "a" * (LONGEST_PATTERN + 1)}, f"at most {LONGEST_PATTERN} are allowed"),
        ({"patternProperties": {r"(\w\w?){300}": {}}}, "exceeds size limit"),
        ({"anyOf": [{"pattern": f"a{i}"} for i in range(MOST_PATTERNS + 1)]}, f"more than {MOST_PATTERNS} different"),
        ({"properties": {"a": {"$id": "x"}}}, "properties/a/$id: is not understood"),
        ({"unevaluatedItems": False}, "is not understood"),
        ({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}, "is another draft"),
        ({"x": {"pattern": "("}, "$ref": "#/x"}, "$ref: '#/x' is no part of this schema"),
        ({"$ref": "http://x.test/y"}, "is no part of this schema"),
    ],
)
def test_what_could_run_away_is_refused_with_its_place(schema: Any, told: str) -> None:
    assert told in str(schema_problem(schema, SchemaWork()))


def _doubling(levels: int) -> dict[str, Any]:
    twice = {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": twice | {str(levels): {"type": "integer"}}, "$ref": "#/$defs/0"}


def _nested(levels: int) -> Any:
    return [_nested(levels - 1)] if levels else 1


LEAF = "x" * 100_000
NAMES = [str(number) for number in range(1_000)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (_doubling(40), 1),
        ({"$ref": "#"}, 1),
        (
            {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}], "not": {"type": "integer"}},
            _nested(40),
        ),
        ({"allOf": [{"pattern": "(x?)+y|x"}] * 1_000}, LEAF),
        ({"allOf": [{"const": LEAF}] * 1_000}, LEAF),
        ({"allOf": [{"uniqueItems": True}] * 1_000}, [{"a": index} for index in range(8_000)]),
        ({"allOf": [{"required": NAMES}] * 4_000}, dict.fromkeys(NAMES, 1)),
    ],
)
def test_no_schema_takes_more_than_a_bounded_number_of_steps(schema: Any, value: Any) -> None:
    assert schema_problem(schema, SchemaWork()) is None
    with pytest.raises(NotApplicable, match=r"too many steps|without end"):
        value_problem(schema, value, SchemaWork())


def test_a_pattern_that_others_try_without_end_is_matched_at_once() -> None:
    schema = {"pattern": "^(a+)+$"}
    assert value_problem(schema, "a" * 5_000, SchemaWork()) is None
    assert value_problem(schema, "a" * 5_000 + "!", SchemaWork()) is not None
