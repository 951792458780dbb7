"""JSON by the letter: no NaN, no key twice, no number that nobody can hold. What is wrong is told in words."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from ratchet._text.shortening import shorten

LONGEST_KEY = 200
"""Characters of a key in a message."""


class RepeatedKey(ValueError):
    """A key that is there twice in one object; readers would silently take the last."""


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a JSON reader's pairs. Raises RepeatedKey."""
    value = dict(pairs)
    if len(value) < len(pairs):
        repeated = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise RepeatedKey(f"key {shorten(repeated, LONGEST_KEY)!r} is there twice in one object; keep one")
    return value


def refuse_constant(constant: str) -> Any:
    """NaN and infinity, which Python's reader takes."""
    raise ValueError(f"{constant} is not a JSON number; write a finite number or null")


class LongNumber(ValueError):
    """A whole number of more digits than anybody computes with."""

    def __init__(self, digits: str) -> None:
        super().__init__(f"a number has {len(digits):,} digits; write numbers of more than {_MOST_DIGITS} as text")
        self.digits = digits

    def line_in(self, text: str) -> int:
        """The line that it stands in."""
        return text.count("\n", 0, max(0, text.find(self.digits))) + 1


_MOST_DIGITS = sys.float_info.max_10_exp


def whole_number(digits: str) -> int:
    """A whole number; of thousands of digits none is made."""
    if len(digits) > _MOST_DIGITS + 2:
        raise LongNumber(digits)
    return int(digits)


def strict_json(text: str | bytes) -> Any:
    """What the text says. Raises ValueError: RepeatedKey, LongNumber, json.JSONDecodeError, or one that says what else is
    wrong."""
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_int=whole_number, object_pairs_hook=each_key_once)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply; flatten it") from None
