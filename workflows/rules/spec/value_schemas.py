"""JSON Schemas of factors: read, and applied to values, with an amount of work that is bounded and the same everywhere.

Workflow code applies them to what models propose. Libraries match patterns by trying again and again, and follow references
without end; here every step is counted, patterns are matched in linear time, and what cannot be done so is refused when the
schema is read. What is understood is draft 2020-12 without `$anchor`, `$dynamicRef` and `unevaluated…`.
"""

from __future__ import annotations

import functools
import itertools
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from ratchet._formats.canonical import canonical_json
from ratchet._text.shortening import shorten

MOST_STEPS: Final = 300_000
"""Of applying the schemas of one configuration: keywords, and characters that are compared. A fraction of a second."""

MOST_PATTERNS: Final = 20
"""Different regular expressions in the schemas of one configuration: making one ready may take a tenth of a second."""

LONGEST_PATTERN: Final = 200
"""Characters."""

DEEPEST: Final = 200
"""Schemas within schemas that are applied to one value; so a schema that refers to itself ends."""

LONGEST_SHOWN: Final = 120
"""Characters of a value in a message."""

EXACT: Final = 2**53
"""Below it, floats hold every whole number."""

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_SCHEMA = ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else")
_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_COUNT = ("maxLength", "minLength", "maxItems", "minItems", "maxContains", "minContains", "maxProperties", "minProperties")
_NUMBER = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
_NOT_UNDERSTOOD = (
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "unevaluatedItems",
    "unevaluatedProperties",
    "dependencies",
)


class NotApplicable(Exception):
    """A schema cannot be applied to a value: it takes too many steps, or refers to what is not there."""


class SchemaWork:
    """How much may still be done for one configuration."""

    def __init__(self) -> None:
        self._steps = MOST_STEPS
        self._patterns: set[str] = set()
        self._texts: dict[int, frozenset[str]] = {}

    def take(self, steps: int) -> None:
        """Raises NotApplicable."""
        self._steps -= steps
        if self._steps < 0:
            raise NotApplicable("it takes too many steps; make the schema or the value smaller")

    def knows(self, pattern: str) -> bool:
        """Whether a pattern may be used beside all those that were used before."""
        self._patterns.add(pattern)
        return len(self._patterns) <= MOST_PATTERNS

    def text_of(self, value: Any) -> str:
        """The value's canonical text."""
        text = canonical_json(value)
        self.take(1 + len(text) // 10)
        return text

    def texts_of(self, values: list[Any]) -> frozenset[str]:
        """The canonical texts of a list in a schema, found once."""
        if id(values) not in self._texts:
            self._texts[id(values)] = frozenset(map(self.text_of, values))
        return self._texts[id(values)]


# Reading


def schema_problem(schema: Any, work: SchemaWork | None = None) -> str | None:
    """The first thing that is wrong with a schema, or None.

    With `work` it must be one that can be applied here; without, only its form is looked at.
    """
    places: set[str] = set()
    references: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any]] = [("", schema)]
    while waiting:
        place, part = waiting.pop()
        places.add(place)
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            return _at(place, f"{_shown(part)} is no schema; write a mapping, true or false")
        for keyword, argument in part.items():
            problem = _malformed(keyword, argument) or (_refused(place, keyword, argument, work) if work else None)
            if problem is not None:
                return _at(f"{place}/{_escaped(keyword)}", problem)
            if keyword == "$ref":
                references.append((place, argument))
            waiting += [(f"{place}/{_escaped(keyword)}{below}", inner) for below, inner in _within(keyword, argument)]
    lost = (reference for reference in references if _pointer(reference[1]) not in places)
    place, reference = next(lost, ("", "")) if work else ("", "")
    return (
        _at(f"{place}/$ref", f"{_shown(reference)} is no part of this schema; write e.g. #/$defs/name") if reference else None
    )


def _at(place: str, problem: str) -> str:
    return f"{shorten(place.removeprefix('/'), LONGEST_SHOWN)}: {problem}" if place else problem


def _within(keyword: str, argument: Any) -> Iterator[tuple[str, Any]]:
    if keyword in _SCHEMA:
        yield "", argument
    elif keyword in _SCHEMAS:
        yield from ((f"/{index}", inner) for index, inner in enumerate(argument))
    elif keyword in _NAMED_SCHEMAS:
        yield from ((f"/{_escaped(name)}", inner) for name, inner in argument.items())


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _pointer(reference: str) -> str | None:
    return urllib.parse.unquote(reference[1:]) if reference.startswith("#") else None


def _malformed(keyword: str, argument: Any) -> str | None:
    """What is wrong with the form of a keyword's argument."""
    match keyword:
        case "type":
            given = argument if isinstance(argument, list) and argument else [argument]
            unknown = next((name for name in given if name not in _TYPES), None)
            wrong = None if unknown is None and all(isinstance(n, str) for n in given) else f"one of {', '.join(_TYPES)}"
        case "enum":
            wrong = None if isinstance(argument, list) else "a list of values"
        case "required":
            wrong = None if _are_names(argument) else "a list of different names"
        case "dependentRequired":
            fits = isinstance(argument, Mapping) and all(map(_are_names, argument.values()))
            wrong = None if fits else "a mapping of names to lists of different names"
        case "uniqueItems":
            wrong = None if isinstance(argument, bool) else "true or false"
        case "pattern" | "$ref" | "$schema" | "$id" | "format":
            wrong = None if isinstance(argument, str) else "a text"
        case _ if keyword in _SCHEMAS:
            wrong = None if isinstance(argument, list) and argument else "a list of schemas"
        case _ if keyword in _NAMED_SCHEMAS:
            wrong = None if isinstance(argument, Mapping) else "a mapping of names to schemas"
        case _ if keyword in _COUNT:
            wrong = None if _is_integer(argument) and argument >= 0 else "a whole number of 0 or more"
        case _ if keyword in _NUMBER:
            fits = _is_number(argument) and (argument > 0 or keyword != "multipleOf")
            wrong = None if fits else "a number" + (" of more than 0" if keyword == "multipleOf" else "")
        case _:
            wrong = None
    return None if wrong is None else f"{_shown(argument)} is not {wrong}"


def _are_names(argument: Any) -> bool:
    are_texts = isinstance(argument, list) and all(isinstance(name, str) for name in argument)
    return are_texts and len(set(argument)) == len(argument)


def _refused(place: str, keyword: str, argument: Any, work: SchemaWork) -> str | None:
    """Why what is well-formed cannot be applied here."""
    if keyword in _NOT_UNDERSTOOD and (place or keyword != "$id"):
        return "is not understood in a factor's schema; write it with $defs, $ref: '#/$defs/…' and additionalProperties"
    if keyword == "$schema" and argument.rstrip("#") != DRAFT:
        return f"{_shown(argument)} is another draft; write the schema by {DRAFT}"
    patterns = [argument] if keyword == "pattern" else argument if keyword == "patternProperties" else ()
    return next((told for told in (_unusable(pattern, work) for pattern in patterns) if told), None)


def _unusable(pattern: str, work: SchemaWork) -> str | None:
    if len(pattern) > LONGEST_PATTERN:
        return f"the regular expression has {len(pattern):,} characters; at most {LONGEST_PATTERN} are allowed"
    if not work.knows(pattern):
        return f"is one of more than {MOST_PATTERNS} different regular expressions; use fewer"
    try:
        _compiled(pattern)
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("error: ")
        return f"{pattern!r} is no regular expression that is matched in linear time: {shorten(reason, LONGEST_SHOWN)}"
    return None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> SchemaValidator:
    """Rust's regular expressions, which pydantic brings along: they know no look-around, and never run away."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


# Applying


def value_problem(schema: Any, value: Any, work: SchemaWork) -> str | None:
    """The first thing about a value that a schema does not accept, or None. Raises NotApplicable."""
    return _Application(schema, work).problem(schema, value, 0)


class _Application:
    """One schema that is applied to one value."""

    def __init__(self, root: Any, work: SchemaWork) -> None:
        self._root = root
        self._work = work

    def problem(self, schema: Any, value: Any, depth: int) -> str | None:
        if isinstance(schema, bool):
            return None if schema else f"{_shown(value)} is not allowed"
        if depth > DEEPEST:
            raise NotApplicable("it leads from schema to schema without end; break the circle of its $ref")
        for keyword, argument in schema.items():
            self._work.take(1)
            problem = self._of_any(keyword, argument, value, schema, depth + 1)
            match value:
                case _ if problem is not None:
                    return problem
                case bool() | None:
                    continue
                case str():
                    problem = self._of_text(keyword, argument, value)
                case list():
                    problem = self._of_list(keyword, argument, value, schema, depth + 1)
                case dict():
                    problem = self._of_mapping(keyword, argument, value, schema, depth + 1)
                case _:
                    problem = _of_number(keyword, argument, value)
            if problem is not None:
                return problem
        return None

    def _of_any(self, keyword: str, argument: Any, value: Any, schema: Any, depth: int) -> str | None:
        match keyword:
            case "type":
                kinds = argument if isinstance(argument, list) else [argument]
                if not any(_is_of_type(value, kind) for kind in kinds):
                    return f"{_shown(value)} is not of type {', '.join(map(repr, kinds))}"
            case "enum" if not self._is_one_of(argument, value):
                return f"{_shown(value)} is not one of the values in enum"
            case "const" if self._work.text_of(value) != self._work.text_of(argument):
                return f"{_shown(value)} is not {_shown(argument)}"
            case "$ref":
                return self.problem(self._referred(argument), value, depth)
            case "allOf":
                return self._first(((inner, value) for inner in argument), depth)
            case "anyOf" if not any(self._fits(inner, value, depth) for inner in argument):
                return f"{_shown(value)} fits none of anyOf"
            case "oneOf" if sum(self._fits(inner, value, depth) for inner in argument) != 1:
                return f"{_shown(value)} does not fit exactly one of oneOf"
            case "not" if self._fits(argument, value, depth):
                return f"{_shown(value)} fits what it should not"
            case "if":
                branch = "then" if self._fits(argument, value, depth) else "else"
                return self.problem(schema.get(branch, True), value, depth)
        return None

    def _of_text(self, keyword: str, argument: Any, value: str) -> str | None:
        match keyword:
            case "pattern" if not self._matches(argument, value):
                return f"{_shown(value)} does not match {argument!r}"
            case "minLength" if len(value) < argument:
                return f"{_shown(value)} is shorter than {argument:,} characters"
            case "maxLength" if len(value) > argument:
                return f"{_shown(value)} is longer than {argument:,} characters"
        return None

    def _of_list(self, keyword: str, argument: Any, value: list[Any], schema: Any, depth: int) -> str | None:
        match keyword:
            case "prefixItems":
                return self._first(zip(argument, value, strict=False), depth)
            case "items":
                rest = itertools.islice(value, len(schema.get("prefixItems", ())), None)
                return self._first(((argument, item) for item in rest), depth)
            case "contains":
                found = sum(self._fits(argument, item, depth) for item in value)
                if not schema.get("minContains", 1) <= found <= schema.get("maxContains", len(value)):
                    return f"{found:,} items are of the kind that it should contain"
            case "minItems" if len(value) < argument:
                return f"the list has {len(value):,} items, fewer than {argument:,}"
            case "maxItems" if len(value) > argument:
                return f"the list has {len(value):,} items, more than {argument:,}"
            case "uniqueItems" if argument and len({self._work.text_of(item) for item in value}) < len(value):
                return "the list has an item twice"
        return None

    def _of_mapping(self, keyword: str, argument: Any, value: dict[str, Any], schema: Any, depth: int) -> str | None:
        match keyword:
            case "properties":
                return self._first(((inner, value[name]) for name, inner in argument.items() if name in value), depth)
            case "patternProperties":
                fitting = (
                    (inner, value[name])
                    for pattern, inner in argument.items()
                    for name in value
                    if self._matches(pattern, name)
                )
                return self._first(fitting, depth)
            case "additionalProperties":
                strangers = (name for name in value if not self._is_named(name, schema))
                if argument is not False:
                    return self._first(((argument, value[name]) for name in strangers), depth)
                stranger = next(strangers, None)
                return None if stranger is None else f"{_shown(stranger)} is none of its properties"
            case "propertyNames":
                return self._first(((argument, name) for name in value), depth)
            case "required":
                missing = next((name for name in self._each(argument) if name not in value), None)
                return None if missing is None else f"{_shown(missing)} is a required property"
            case "dependentRequired":
                needed = (name for given, names in argument.items() if given in value for name in self._each(names))
                missing = next((name for name in needed if name not in value), None)
                return None if missing is None else f"{_shown(missing)} is required beside the others"
            case "dependentSchemas":
                return self._first(((inner, value) for name, inner in argument.items() if name in value), depth)
            case "minProperties" if len(value) < argument:
                return f"the mapping has {len(value):,} properties, fewer than {argument:,}"
            case "maxProperties" if len(value) > argument:
                return f"the mapping has {len(value):,} properties, more than {argument:,}"
        return None

    def _fits(self, schema: Any, value: Any, depth: int) -> bool:
        self._work.take(1)
        return self.problem(schema, value, depth) is None

    def _first(self, values: Iterable[tuple[Any, Any]], depth: int) -> str | None:
        """The first problem of several values, each with its schema."""
        for schema, value in values:
            self._work.take(1)
            problem = self.problem(schema, value, depth)
            if problem is not None:
                return problem
        return None

    def _each(self, names: list[str]) -> list[str]:
        self._work.take(1 + len(names) // 10)
        return names

    def _is_one_of(self, values: list[Any], value: Any) -> bool:
        return self._work.text_of(value) in self._work.texts_of(values)

    def _is_named(self, name: str, schema: Any) -> bool:
        self._work.take(1)
        return name in schema.get("properties", ()) or any(
            self._matches(pattern, name) for pattern in schema.get("patternProperties", ())
        )

    def _matches(self, pattern: str, text: str) -> bool:
        self._work.take(1 + len(text) // 10)
        try:
            _compiled(pattern).validate_python(text)
        except ValidationError:
            return False
        return True

    def _referred(self, reference: str) -> Any:
        schema = self._root
        for step in (_pointer(reference) or "").split("/")[1:]:
            self._work.take(1)
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                schema = schema[int(name)] if isinstance(schema, list) else schema[name]
            except (LookupError, ValueError, TypeError):
                raise NotApplicable(f"{_shown(reference)} is no part of it") from None
        return schema


def _of_number(keyword: str, argument: Any, value: float) -> str | None:
    match keyword:
        case "minimum" if value < argument:
            return f"{_shown(value)} is less than {argument}"
        case "maximum" if value > argument:
            return f"{_shown(value)} is more than {argument}"
        case "exclusiveMinimum" if value <= argument:
            return f"{_shown(value)} is not more than {argument}"
        case "exclusiveMaximum" if value >= argument:
            return f"{_shown(value)} is not less than {argument}"
        case "multipleOf" if not _is_multiple(value, argument):
            return f"{_shown(value)} is no multiple of {argument}"
    return None


def _is_multiple(value: float, divisor: float) -> bool:
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    quotient = Fraction(value) / Fraction(divisor)
    # Beside exact multiples those that only binary notation misses: 0.3 of 0.1.
    return quotient.denominator == 1 or (quotient < EXACT and (value / divisor).is_integer())


def _is_of_type(value: Any, kind: str) -> bool:
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"
    return kind == "number" or (kind == "integer" and _is_integer(value))


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """The value as a message shows it; of a list or mapping only what it is, since all of it may be long."""
    match value:
        case list():
            return "the list"
        case dict():
            return "the mapping"
        case str():
            return repr(shorten(value, LONGEST_SHOWN))
    return repr(value)
