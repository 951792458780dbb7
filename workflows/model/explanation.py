"""Validation errors in words: the field, the value, the fix."""

from __future__ import annotations

import json
from typing import Any

import pydantic

_UNIONS = {"factors", "frozen", "structured", "text", "number", "integer", "choice", "order", "flag", "json"}
_MOST = 20


def explain(error: pydantic.ValidationError) -> list[str]:
    """One line per problem: where, what is wrong, and what was given."""
    lines = [_line(problem) for problem in error.errors(include_url=False, include_context=True)]
    lines = list(dict.fromkeys(lines))
    return lines if len(lines) <= _MOST else [*lines[:_MOST], f"… and {len(lines) - _MOST} more"]


def _line(problem: Any) -> str:
    where = _path(problem["loc"])
    kind, context = problem["type"], problem.get("ctx", {})
    message = {
        "extra_forbidden": "is not a known field; remove it or check its spelling",
        "missing": "is missing; add it",
        "union_tag_invalid": f"has {context.get('discriminator')} {context.get('tag')!r}; "
        f"use one of {context.get('expected_tags')}",
        "union_tag_not_found": f"needs {context.get('discriminator')}, which says what kind it is",
        "finite_number": "must be a finite number",
    }.get(kind)
    if message is None:
        message = str(problem["msg"]).removeprefix("Value error, ")
        message = message[:1].lower() + message[1:] if message.startswith("Input ") else message
    given = "" if kind in {"missing", "extra_forbidden"} or message.startswith("Factor value") else _given(problem["input"])
    return f"{where}: {message}{given}" if where else f"{message}{given}"


def _path(location: tuple[int | str, ...]) -> str:
    """`configuration.prompt.max_length`; the tags that unions add to a location are left out."""
    path = ""
    for index, step in enumerate(location):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not (index > 0 and _is_tag(location, index)):
            path += f".{step}" if path else step
    return path


def _is_tag(location: tuple[int | str, ...], index: int) -> bool:
    step, before = location[index], location[:index]
    if before[0] == "configuration":
        return index >= 2 and step in _UNIONS and not _names_a_field(location, index)
    return before in {("target",), ("optimizer", "proposer")} or (before[0] == "scorers" and index == 2)


def _names_a_field(location: tuple[int | str, ...], index: int) -> bool:
    """`text`, `number` and so on are tags right after the factor's name, and fields nowhere."""
    return index > 3


def _given(value: Any) -> str:
    try:
        shown = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        shown = repr(value)
    return f" (is {shown if len(shown) <= 80 else shown[:79] + '…'})"
