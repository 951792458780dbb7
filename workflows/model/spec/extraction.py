"""Which part of an output a scorer looks at."""

from __future__ import annotations

import re
from re import _parser  # type: ignore[attr-defined]  # what `re.compile` begins with; there is no public way to stop there
from typing import Any

from pydantic import field_validator

from ratchet._frozen import SpecPart
from ratchet._values import ShortText, Text

_STEP = re.compile(r"\.?([^\s.\[\]'\"$]+)|\[(-?\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")


def json_path_steps(path: str) -> list[str | int]:
    """The names and indexes of `$.answers[0].label`."""
    steps: list[str | int] = []
    place = 1 if path.startswith("$") else 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            raise ValueError(f"cannot be read from {path[place:]!r} on; write names and indexes, such as $.answers[0].label")
        name, index, *quoted = step.groups()
        steps.append(int(index) if index is not None else next(text for text in (name, *quoted) if text is not None))
        place = step.end()
    return steps


def regular_expression(value: str | None) -> str | None:
    """A pattern that can be read, or a reason why it cannot."""
    if value is not None:
        problem = pattern_problem(value)
        if problem is not None:
            raise ValueError(f"is not a regular expression: {problem}")
    return value


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be compiled, if it cannot.

    It is only read: to compile thousands of characters of `(?i)[\\0-\\uffff]` takes minutes. That is left to the process
    that matches, which is killed when it takes too long.
    """
    try:
        read = _parser.parse(pattern)
    except (re.error, OverflowError) as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return "look-behind requires fixed-width pattern" if _looks_behind_by_varying_lengths(read) else None


def _looks_behind_by_varying_lengths(read: Any) -> bool:
    """What reading does not find and compiling does."""
    waiting = [read]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _parser.SubPattern):
            waiting += part.data
        elif isinstance(part, tuple | list):
            if len(part) == 2 and str(part[0]) in ("ASSERT", "ASSERT_NOT"):
                direction, within = part[1]
                shortest, longest = within.getwidth()
                if direction < 0 and shortest != longest:
                    return True
            waiting += part
    return False


class Extract(SpecPart):
    """Which part of the output is scored. Applied in this order: `regex`, `json_path`, `strip`, `lower`."""

    regex: Text | None = None
    """Score what this regular expression's first group matches; without a group, what all of it matches."""
    json_path: ShortText | None = None
    """Read the text as JSON and score the value at this place: names and indexes, such as `$.answers[0].label`."""
    strip: bool = False
    """Score the text without the white space around it."""
    lower: bool = False
    """Score the text in lower case."""

    _compiles = field_validator("regex")(regular_expression)

    @field_validator("json_path")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            json_path_steps(value)
        return value
