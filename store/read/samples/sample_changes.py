"""What changed between two versions of a sample, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ratchet._formats.canonical import canonical_json
from ratchet._frozen import Payload

MOST_CHANGES: Final = 50
"""Of one sample that are told."""
LONGEST_TEXT: Final = 1_000
"""Characters of a part that are told; of longer ones those around the first that differs."""
_BEFORE: Final = 200
"""Characters that are told before it."""


class SampleChange(Payload):
    """A part that says something else."""

    part: str
    """`expected`, `input.text`, `weight`, `tags`."""
    before: str | None
    """Null where it was not there."""
    after: str | None


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[SampleChange, ...]:
    """Return the parts that differ; where both say mappings of fields, field by field."""
    found = []
    for part, one, other in _differing(before, after):
        texts = [None if given is _MISSING else _text(given) for given in (one, other)]
        first = _first_that_differs(*(text or "" for text in texts))
        found.append(SampleChange(part=part, before=_around(texts[0], first), after=_around(texts[1], first)))
    return tuple(found[:MOST_CHANGES])


_MISSING: Final = object()


def _differing(before: Mapping[str, Any], after: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, _MISSING), after.get(name, _MISSING)
        if isinstance(one, Mapping) and isinstance(other, Mapping) and not within:
            yield from _differing(one, other, f"{name}.")
        elif one is _MISSING or other is _MISSING or canonical_json(one) != canonical_json(other):
            yield f"{within}{name}", one, other


def _first_that_differs(one: str, other: str) -> int:
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list() | tuple() if all(isinstance(one, str) for one in value):
            return ", ".join(value)
    return canonical_json(value)


def _around(text: str | None, first: int) -> str | None:
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    start = max(0, min(first - _BEFORE, len(text) - LONGEST_TEXT))
    end = start + LONGEST_TEXT
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
