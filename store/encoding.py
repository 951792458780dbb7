"""How values get into PostgreSQL and out again.

What models answer is hostile: NUL characters and lone surrogates, which PostgreSQL refuses, NaN, endless nesting. An answer
that was paid for is stored all the same, with a visible mark where something could not be kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet._formats.canonical import canonical_json

VISIBLE_NUL = "␀"
VISIBLE_SURROGATE = "�"
DEEPEST = 200
TOO_DEEP = "…(nested too deeply to be stored)"

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def storable_text(text: str) -> str:
    """The text itself, or with marks where it holds what PostgreSQL cannot."""
    if "\x00" in text:
        text = text.replace("\x00", VISIBLE_NUL)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = "".join(VISIBLE_SURROGATE if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def optional_text(text: str | None) -> str | None:
    """Like `storable_text`, for what may be missing."""
    return None if text is None else storable_text(text)


def storable_json(value: Any) -> str:
    """The value as JSON text that PostgreSQL takes, whatever it is."""
    try:
        text = _encoder.encode(value)
        if "\\u0000" not in text:
            text.encode()
            return text
    except (TypeError, ValueError, RecursionError):  # ValueError covers NaN, circles and lone surrogates
        pass
    return _encoder.encode(_storable(value, DEEPEST))


def optional_json(value: Any) -> str | None:
    """Like `storable_json`; nothing is stored for nothing."""
    return None if value is None else storable_json(value)


def _storable(value: Any, depth: int) -> Any:
    if depth == 0:
        return TOO_DEEP
    match value:
        case None | bool() | int():
            return value
        case str():
            return storable_text(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {storable_text(str(key)): _storable(item, depth - 1) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_storable(item, depth - 1) for item in value]
    return storable_text(str(value))


def from_json(text: str | None) -> Any:
    """What was stored; None for nothing."""
    return None if text is None else json.loads(text)


def json_at(text: str, path: Sequence[str]) -> str | None:
    """What is at a path of canonical JSON, as text; None where nothing is. The same as PostgreSQL's `#>`."""
    value = json.loads(text)
    for step in path:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return canonical_json(value)


def decoded(row: Any, *json_columns: str) -> dict[str, Any]:
    """A row's columns, those that hold JSON as what it says."""
    values = dict(row)
    return {**values, **{name: from_json(values[name]) for name in json_columns}}
