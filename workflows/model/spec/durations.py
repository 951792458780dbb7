"""Durations as people write them: `90`, `90s`, `15m`, `2h`, `1d`, `1h30m`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
LONGEST = timedelta(days=365)


def parse_duration(value: Any) -> timedelta:
    """Seconds as a number, or text with units."""
    if isinstance(value, timedelta):
        parsed = value
    elif isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is not a duration; write seconds or text such as 90s, 15m, 2h")
    else:
        seconds = _seconds(value.strip()) if isinstance(value, str) else value
        if not 0 <= seconds <= LONGEST.total_seconds():
            raise ValueError("is not a duration between 0 and 365 days")
        parsed = timedelta(seconds=seconds)
    if not timedelta(0) <= parsed <= LONGEST:
        raise ValueError("is not a duration between 0 and 365 days")
    return parsed


def _seconds(text: str) -> float:
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or len(text) > 40 or _PART.sub("", text).strip():
        raise ValueError("is not a duration; write seconds or text such as 90s, 15m, 2h, 1h30m")
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda value: value.total_seconds(), return_type=float),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\s*\d"}],
            "description": "Seconds, or text with units: 90s, 15m, 2h, 1h30m.",
        }
    ),
]


def _is_positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be longer than 0")
    return value


PositiveDuration = Annotated[Duration, AfterValidator(_is_positive)]

Elapsed = Annotated[timedelta, WithJsonSchema({"type": "string", "description": "An ISO 8601 duration, such as PT2.5S."})]
"""A time that was measured. The schema format `duration` knows no fractions of seconds."""
