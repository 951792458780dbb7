"""What two configurations differ in, factor by factor, and texts word by word."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from ratchet._frozen import Payload
from workflows.model.spec.factors import Configuration

MOST_LINES: Final = 1_000
MOST_WORDS: Final = 400
"""Beyond them what differs is shown as replaced whole: comparing takes time that grows with the square."""

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")

Kind = Literal["same", "removed", "added"]


class Segment(Payload):
    """A piece of text that is in both, only in the first, or only in the second."""

    kind: Kind
    text: str


class FactorDifference(Payload):
    """One factor whose values differ."""

    factor: str
    before: Any
    after: Any
    segments: tuple[Segment, ...]
    """Both values in one text; what is no text is compared as JSON."""


def differences(before: Configuration, after: Configuration) -> tuple[FactorDifference, ...]:
    """The factors that differ, in the order of the second configuration; what only the first has comes last."""
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        FactorDifference(
            factor=name,
            before=before.get(name),
            after=after.get(name),
            segments=tuple(segments(_text(before, name), _text(after, name))),
        )
        for name in names
        if (name in before) != (name in after) or before.get(name) != after.get(name)
    )


def _text(configuration: Configuration, name: str) -> str:
    if name not in configuration:
        return ""
    value = configuration[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def segments(before: str, after: str) -> list[Segment]:
    """Two texts as one: first compared line by line, then, where lines were replaced, word by word."""
    found: list[Segment] = []
    for kind, text in _pieces(before, after):
        if found and found[-1].kind == kind:
            found[-1] = Segment(kind=kind, text=found[-1].text + text)
        elif text:
            found.append(Segment(kind=kind, text=text))
    return found


def _pieces(before: str, after: str) -> Iterator[tuple[Kind, str]]:
    for tag, one, other in _compared(before.splitlines(keepends=True), after.splitlines(keepends=True), MOST_LINES):
        if tag == "replace":
            yield from _by_words("".join(one), "".join(other))
        else:
            yield from _plain(tag, one, other)


def _by_words(before: str, after: str) -> Iterator[tuple[Kind, str]]:
    pairs = [
        ("".join(one), "".join(other), tag == "equal")
        for tag, one, other in _compared(_WORDS.findall(before), _WORDS.findall(after), MOST_WORDS)
    ]
    for one, other, same in _readable(pairs):
        yield from (("same", one),) if same else (("removed", one), ("added", other))


def _readable(pairs: list[tuple[str, str, bool]]) -> list[tuple[str, str, bool]]:
    """A few words that two rewritten passages happen to share are no help to a reader: they count as rewritten, too."""
    found: list[tuple[str, str, bool]] = []
    for place, (one, other, same) in enumerate(pairs):
        shared = same and not _lost_between(pairs[place - 1] if place else None, one, pairs[place + 1 : place + 2])
        if not shared and found and not found[-1][2]:
            found[-1] = (found[-1][0] + one, found[-1][1] + other, False)
        else:
            found.append((one, other, shared))
    return found


def _lost_between(before: tuple[str, str, bool] | None, text: str, after: Sequence[tuple[str, str, bool]]) -> bool:
    """Whether what is the same is shorter than what was rewritten on either side of it."""
    if before is None or not after:
        return False
    return all(len(text) < max(len(one), len(other)) for one, other, _ in (before, *after))


def _plain(tag: str, one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    if tag == "equal":
        yield "same", "".join(one)
        return
    yield "removed", "".join(one)
    yield "added", "".join(other)


def _compared(one: Sequence[str], other: Sequence[str], most: int) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    if len(one) > most or len(other) > most:
        same = 0
        while same < min(len(one), len(other)) and one[same] == other[same]:
            same += 1
        yield "equal", one[:same], other[:same]
        yield "rest", one[same:], other[same:]
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        yield tag, one[a:b], other[c:d]
