"""Texts as lines that can be kept, left out and carried over from one text to another."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ratchet._text.placeholders import placeholders

WRAPPED = 60
"""A line of so many characters that ends in the middle of a sentence goes on in the next one."""

_FENCE = re.compile(r"\s*(```|~~~)")
_SENTENCE_ENDS = (".", ":", ";", "!", "?", ">", "|")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text; a wrapped paragraph or a fenced block counts as one."""

    key: str
    """What makes two lines the same: its words."""
    text: str
    gap: int = 0
    """Blank lines before it."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A line of another text, and the keys of those before it there, the nearest first."""

    line: Line
    after: tuple[str, ...] = ()


def lines_of(text: str) -> list[Line]:
    """A text as its lines."""
    found: list[Line] = []
    for gap, block in _blocks(text.split("\n")):
        whole = "\n".join(block)
        found.append(Line(" ".join(whole.split()), whole, gap))
    return found


def _blocks(rows: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows that belong together, with the number of blank rows before them."""
    gap, block, fenced = 0, list[str](), False
    for row in rows:
        if fenced:
            block.append(row)
            fenced = _FENCE.match(row) is None
        elif not row.strip():
            if block:
                yield gap, block
                gap, block = 0, []
            gap += 1
        elif block and not _goes_on(block[-1], row):
            yield gap, block
            gap, block = 0, [row]
            fenced = _FENCE.match(row) is not None
        else:
            fenced = not block and _FENCE.match(row) is not None
            block.append(row)
    if block:
        yield gap, block


def _goes_on(before: str, row: str) -> bool:
    return len(before) >= WRAPPED and not before.rstrip().endswith(_SENTENCE_ENDS) and row.lstrip()[:1].islower()


def text_of(lines: Iterable[Line]) -> str:
    """Lines as a text again."""
    return "".join("\n" * (line.gap + (place > 0)) + line.text for place, line in enumerate(lines))


def keys_of(lines: Iterable[Line]) -> list[str]:
    """Each key once, in the order of the text."""
    return list(dict.fromkeys(line.key for line in lines))


def kept_share(before: Collection[str], after: Collection[str]) -> float:
    """How much of a text its rewriting left alone."""
    return len(set(before) & set(after)) / len(set(before)) if before else 1.0


def additions_of(lines: Sequence[Line], wanted: Collection[str]) -> list[Addition]:
    """Some lines of a text, with where they stand in it."""
    keys = [line.key for line in lines]
    return [
        Addition(line, tuple(reversed(keys[:place])))
        for place, line in enumerate(lines)
        if line.key in wanted and line.key not in keys[:place]
    ]


def recombined(lines: Sequence[Line], dropped: Collection[str], added: Iterable[Addition]) -> list[Line]:
    """A text without some of its lines and with others, each after the line that it followed where it comes from."""
    made = [line for line in lines if line.key not in dropped]
    for addition in added:
        keys = [line.key for line in made]
        if addition.line.key in keys:
            continue
        places = [keys.index(key) + 1 for key in addition.after if key in keys]
        made.insert(places[0] if places else len(made), addition.line)
    return made


def with_placeholders_of(given: str, rewritten: str) -> str:
    """A rewriting with the lines put back that carried placeholders which it lost."""
    left = placeholders(rewritten)
    before = lines_of(given)
    lost = {line.key for line in before if any(name not in left for name in placeholders(line.text))}
    return text_of(recombined(lines_of(rewritten), (), additions_of(before, lost))) if lost else rewritten


def mark(key: str) -> str:
    """A short name of a line, to remember it by."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


INCREMENTAL = 0.5
"""A rewriting that keeps at least this share of the lines changed the text; one that keeps less replaced it."""


def carrying_placeholders(lines: Iterable[Line]) -> set[str]:
    """The keys of lines without which a placeholder would be lost."""
    return {line.key for line in lines if placeholders(line.text)}
