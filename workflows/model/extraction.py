"""Which part of an output a scorer looks at."""

from __future__ import annotations

import re

from pydantic import field_validator

from workflows.model.frozen import SpecPart
from workflows.model.values import ShortText, Text

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
    """A pattern that compiles, or a reason why it does not."""
    if value is not None:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is not a regular expression: {error}") from None
    return value


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
