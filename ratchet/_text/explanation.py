"""Validation errors in words: the field, the value, the fix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from ratchet._text.misspelt_names import UNKNOWN_FIELD
from ratchet._text.shortening import shorten

_UNIONS = {"factors", "frozen", "structured", "text", "number", "integer", "choice", "order", "flag", "json"}
_MOST = 20
_LONGEST_VALUE = 80
_WRITTEN_OUT = 1e20
"""From here on numbers are told as powers of ten."""

PATTERNS = {
    r"^[A-Za-z_][\w./:-]{0,127}$": "is no name for a factor; start with a letter or _, "
    "go on with letters, digits and _ . / : -, at most 128 characters",
    r"^[A-Za-z0-9][\w.-]{0,99}$": "is no name; start with a letter or digit, go on with letters, digits and _ . -, "
    "at most 100 characters",
    r"^[A-Za-z_][\w.-]{0,63}$": "is no name for a score; start with a letter or _, go on with letters, digits and _ . -, "
    "at most 64 characters",
    r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$": "is no name for a tool; start with a letter or _, go on with letters, digits, _ and -, "
    "at most 64 characters",
    r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$": "is no name for a flag; start with a letter or _, go on with letters, digits and "
    "_ . -, at most 64 characters",
    r"^\S(.{0,198}\S)?$": "is no name of a person; write it on one line, without blanks around it, at most 200 characters",
    r"^[A-Za-z_]\w{0,63}$": "is no name for a step; start with a letter or _, go on with letters, digits and _, "
    "at most 64 characters",
    r"^[0-9a-f]{64}$": "is no content hash; give the 64 hexadecimal digits that ingesting the dataset printed",
    r"^(mean|total|max|p\d{1,2})$": "is no statistic; write mean, total, max, or a percentile such as p95",
    r"^(tags(\.[^.]+)?|(input|expected)(\.[^.]+)*)$": "is nothing to group by; write a field such as input.question, tags, or "
    "tags.customer for tags such as customer:acme",
    r"^(tags|(input|expected)(\.[^.]+)*)$": "is no part of an item; write tags, expected, or a field such as input.language",
}
"""What a pattern of the spec asks for, in words."""

_WORDS = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not a known field; remove it or check its spelling",
    "union_tag_invalid": "has {discriminator} {tag!r}; use one of {expected_tags}",
    "union_tag_not_found": "needs {discriminator}, which says what it is; add it",
    "literal_error": "use one of {expected}",
    "enum": "use one of {expected}",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of names to values",
    "model_attributes_type": "must be a mapping of names to values",
}
"""What is wrong and what to do, by pydantic's type of error."""

_VALUE_SAYS_NOTHING = {
    "missing",
    "extra_forbidden",
    "union_tag_invalid",
    "union_tag_not_found",
    "too_short",
    "string_too_short",
}


def explain(error: pydantic.ValidationError) -> list[str]:
    """One line per problem: where, what is wrong, and what was given."""
    return explained(error.errors(include_url=False, include_context=True))


def explained(problems: Iterable[Any]) -> list[str]:
    """The same for problems that somebody else took out of the error."""
    lines = [_line(problem) for problem in problems]
    lines = list(dict.fromkeys(lines))
    return lines if len(lines) <= _MOST else [*lines[:_MOST], f"… and {len(lines) - _MOST} more"]


def _line(problem: Any) -> str:
    where, message = _path(problem["loc"]), _message(problem)
    said_by_a_whole_part = problem["type"] == "value_error" and isinstance(
        problem["input"], Mapping | list | pydantic.BaseModel | Exception
    )
    silent = said_by_a_whole_part or problem["type"] in _VALUE_SAYS_NOTHING or message.startswith("Factor value")
    given = "" if silent else f" (is {_shown(problem['input'])})"
    line = f"{where}: {message}{given}" if where else f"{message}{given}"
    return line.encode("utf-8", "backslashreplace").decode()


def _message(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == UNKNOWN_FIELD and "meant" in context:
        return f"is not a known field; did you mean {context['meant']}?"
    if kind in _WORDS:
        return _WORDS[kind].format_map({name: _readable(value) for name, value in context.items()})
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERNS:
        return PATTERNS[context["pattern"]]
    if kind in {"too_short", "string_too_short"}:
        return "is empty; write something" if isinstance(problem["input"], str) else "is empty; add at least one entry"
    if kind in {"too_long", "string_too_long"}:
        return (
            f"is too long; at most {context['max_length']:,} {'characters' if isinstance(problem['input'], str) else 'entries'}"
        )
    message = str(problem["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:] if message.startswith(("Input ", "String ", "List ", "Dictionary ")) else message


def _readable(value: Any) -> Any:
    """`1,000` for 1000.0, and names without the quotes that pydantic puts around some."""
    if isinstance(value, int | float) and float(value).is_integer():
        return f"{int(value):,}" if abs(value) < _WRITTEN_OUT else f"{value:g}"
    return value.strip("'") if isinstance(value, str) and value.count("'") == 2 else value


def _path(location: tuple[int | str, ...]) -> str:
    """`configuration.prompt.max_length`; the tags that unions add to a location are left out."""
    path = ""
    for index, step in enumerate(location):
        if isinstance(step, int):
            path += f"[{step}]"
        elif step != "[key]" and not (index > 0 and _is_tag(location, index)):
            name = shorten(step, _LONGEST_VALUE)
            path += f".{name}" if path else name
    return path


def _is_tag(location: tuple[int | str, ...], index: int) -> bool:
    step, before = location[index], location[:index]
    if before[0] == "configuration":
        return index >= 2 and step in _UNIONS and not _names_a_field(location, index)
    if before[0] in ("sections", "parameters") and index == 2:
        return True
    if before[0] == "target" and before[-2:-1] in {("messages",), ("tools",)} and isinstance(before[-1], int):
        return True
    if before[0] == "optimizer" and before[2:] == ("proposer",):
        return True
    return before in {("target",), ("replicates",), ("optimizer",)} or _follows_a_scorers_number(before)


def _follows_a_scorers_number(before: tuple[int | str, ...]) -> bool:
    return before[0] == "scorers" and before[-2:-1] == ("scorers",) and isinstance(before[-1], int)


def _names_a_field(location: tuple[int | str, ...], index: int) -> bool:
    """`text`, `number` and so on are tags right after the factor's name, and fields nowhere."""
    return index > 3


def _shown(value: Any) -> str:
    """Short values as they are; of a whole list or mapping only what it is."""
    if isinstance(value, Mapping | pydantic.BaseModel):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return "a list"
    try:
        shown = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        shown = f"of type {type(value).__name__}"
    return shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 1] + "…"
