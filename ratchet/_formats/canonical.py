"""Canonical form: equal values give equal bytes, and therefore equal hashes.

Keys are sorted, text is NFC with `\\n` line ends, integral floats are integers. Text is normalized once, when it enters;
those bytes are stored, hashed, tried and shipped.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

DEEPEST = 100
"""So many levels of lists and mappings may nest. Payloads wrap values in a few more, and their readers stop at 200."""

LARGEST_NUMBER = int(sys.float_info.max)
"""A larger whole number is no float; readers of JSON lose it, and arithmetic with floats fails on it."""


class NotCanonical(ValueError):
    """A value that has no canonical form: NaN, infinity, NUL, a lone surrogate, too large, too deep, or no JSON."""


def normalize_text(text: str) -> str:
    """NFC, with `\\n` line ends. NUL and lone surrogates are refused: no store and no wire keeps them."""
    if "\x00" in text:
        raise NotCanonical("text contains a NUL character; remove it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotCanonical(f"text contains a lone surrogate at position {error.start}; remove it") from None
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


def normalize(value: Any) -> JsonValue:
    """The value in the one form that is stored, hashed, tried and shipped."""
    return _normalize(value, DEEPEST)


def _normalize(value: Any, levels_left: int) -> JsonValue:
    match value:
        case None | bool():
            return value
        case str():
            return normalize_text(value)
        case int():
            return _normalize_integer(value)
        case float():
            return _normalize_float(value)
    if levels_left == 0:
        raise NotCanonical(f"is nested more than {DEEPEST} levels deep; flatten it")
    match value:
        case Mapping():
            return _normalize_mapping(value, levels_left - 1)
        case list() | tuple():
            return [_normalize(item, levels_left - 1) for item in value]
    if is_scalar(value):
        return _normalize(value.item(), levels_left - 1)  # whatever `item` gives, this ends
    raise NotCanonical(f"{type(value).__name__} is not a JSON value; use text, numbers, booleans, lists or mappings")


def is_scalar(value: Any) -> bool:
    """Whether it is one number or flag of an array library, such as numpy's, whose `item()` is the same of Python's own."""
    return hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", None) == 0


def _normalize_integer(value: int) -> int:
    if abs(value) > LARGEST_NUMBER:
        raise NotCanonical("a whole number of more than 308 digits is too large; write it as text")
    return int(value)


def _normalize_float(value: float) -> JsonValue:
    if not math.isfinite(value):
        raise NotCanonical(f"{value} is not a finite number")
    return int(value) if value.is_integer() else float(value)


def _normalize_mapping(value: Mapping[Any, Any], levels_left: int) -> JsonValue:
    normalized: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotCanonical(f"key {key!r} is not text; quote it")
        name = normalize_text(key)
        if name in normalized:
            raise NotCanonical(f"two keys are both {name!r} once their text is normalized")
        normalized[name] = _normalize(item, levels_left)
    return dict(sorted(normalized.items()))


def canonical_json(value: Any) -> str:
    """The canonical text of a value; equal values, whatever their order or notation, give equal text."""
    return json.dumps(normalize(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_hash(value: Any) -> str:
    """sha256 of the canonical text, in hex."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def derive_seed(seed: int, *parts: str | int) -> int:
    """A 63-bit seed that depends on nothing but the spec's seed and what it is for."""
    digest = hashlib.sha256(json.dumps([seed, *parts], separators=(",", ":")).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") >> 1
