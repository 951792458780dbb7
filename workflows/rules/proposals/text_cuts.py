"""Shorter texts without a model: what can be cut out of a section, and the section without it.

A cut is a stretch of the original value (characters of a text, items of a list of examples), so that any number of edits of
one section can be made together, in any order, with one result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from pydantic import JsonValue

from ratchet._text.placeholders import placeholders
from workflows.model.run.compression_report import Strategy
from workflows.model.spec.factors import Factor, JsonFactor, TextFactor


class Cut(NamedTuple):
    """From here up to there, the end left out."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    """One way to make one section shorter."""

    path: str
    strategy: Strategy
    number: int
    """Which of the strategy's edits of this section."""
    cuts: tuple[Cut, ...]


MOST_OF_A_KIND: Final = 200
"""Edits of one strategy in one section, the longest ones."""

FEWEST_WORDS: Final = 4
"""Shorter sentences are repeated for a reason."""

# Every pattern takes linear time on any text: nothing is searched for that may not be there, to the end, from every place.
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SPACE = re.compile(r"\s+")
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_SENTENCE = re.compile(r"\S.*?(?:[.!?](?=\s)|$)")
_MARKS = re.compile(r"[^\w\s]+")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_EXAMPLE_TAG = re.compile(r"<(/?)(examples?)\b[^<>]*>", re.IGNORECASE)
_GIVES = re.compile(r"\W{0,8}(?:(?:for )?examples?\b|e\.g\.|input\b|question\b|q:|user\b|ticket\b|customer\b)", re.IGNORECASE)
_ANSWERS = re.compile(r"\W{0,8}(?:outputs?\b|answer\b|a:|assistant\b|label\b|reply\b|response\b)", re.IGNORECASE)


def edits_of(values: Mapping[str, JsonValue], others: Iterable[str], strategies: Sequence[Strategy]) -> list[Edit]:
    """Every edit of every section that leaves something, and every placeholder. `others` are texts that stay as they are."""
    repeated = _repeated(values, others) if "duplicates" in strategies else {}
    edits: dict[tuple[str, tuple[Cut, ...]], Edit] = {}
    for path, value in values.items():
        for strategy in strategies:
            found = repeated.get(path, []) if strategy == "duplicates" else _ways(value, strategy)
            numbered = [Edit(path, strategy, number, tuple(cuts)) for number, cuts in enumerate(found, start=1)]
            for edit in sorted(numbered, key=_length, reverse=True)[:MOST_OF_A_KIND]:
                if _leaves_enough(value, without(value, edit.cuts)):
                    edits.setdefault((path, edit.cuts), edit)
    return list(edits.values())


def _length(edit: Edit) -> int:
    return sum(end - start for start, end in edit.cuts)


def may_shrink(factor: Factor) -> bool:
    """Texts that may change, and lists of which items may be left out."""
    return isinstance(factor, TextFactor) or (isinstance(factor, JsonFactor) and isinstance(factor.value, list))


def without(value: JsonValue, cuts: Iterable[Cut]) -> JsonValue:
    """What is left of a text or a list; cuts may overlap."""
    if not isinstance(value, str | list):
        return value
    kept, place = value[:0], 0
    for start, end in sorted(cuts):
        if start > place:
            kept = kept + value[place:start]  # type: ignore[operator]  # of the same type on both sides
        place = max(place, end)
    return kept + value[place:]  # type: ignore[operator]


def _leaves_enough(before: JsonValue, after: JsonValue) -> bool:
    if isinstance(before, list):
        return True
    if not isinstance(before, str) or not isinstance(after, str) or not after.strip():
        return False
    kept = placeholders(after)
    return all(name in kept for name in placeholders(before))


def _ways(value: JsonValue, strategy: Strategy) -> list[list[Cut]]:
    if isinstance(value, list):
        return [[Cut(place, place + 1)] for place in range(len(value))] if strategy == "examples" else []
    if not isinstance(value, str):
        return []
    return _OF_TEXTS[strategy](value)


def _white_space(text: str) -> list[list[Cut]]:
    """One space between words, one blank line between paragraphs, none at the ends of lines; indentation and code stay."""
    code = [Cut(*match.span()) for match in _CODE.finditer(text)]
    cuts: list[Cut] = []
    for match in _SPACE.finditer(text):
        while code and code[0].end <= match.start():
            code.pop(0)
        if not code or match.end() <= code[0].start:
            cuts += _needless(text, match.start(), match.end())
    return [cuts] if cuts else []


def _needless(text: str, start: int, end: int) -> Iterator[Cut]:
    """Of a run of white space, what can go."""
    if start == 0 or end == len(text):
        yield Cut(start, end)
        return
    breaks = [place for place in range(start, end) if text[place] == "\n"]
    kept = [*breaks[:2], *range(breaks[-1] + 1, end)] if breaks else [start]
    for before, after in pairwise([start - 1, *kept, end]):
        if after - before > 1:
            yield Cut(before + 1, after)


def _repeated(values: Mapping[str, JsonValue], others: Iterable[str]) -> dict[str, list[list[Cut]]]:
    """The sentences that were said before, in the same section, in an earlier one, or in a text that stays."""
    said = {words for text in others for cut in _sentences(text) if (words := _words(text[cut.start : cut.end]))}
    repeated: dict[str, list[list[Cut]]] = {}
    for path, value in values.items():
        if not isinstance(value, str):
            continue
        cuts = []
        for cut in _sentences(value):
            words = _words(value[cut.start : cut.end])
            if words in said:
                cuts.append(cut)
            elif words:
                said.add(words)
        if cuts:
            repeated[path] = [cuts]
    return repeated


def _words(sentence: str) -> str:
    """A sentence as its words alone; nothing if it hardly says anything."""
    words = _MARKS.sub("", sentence).casefold().split()
    return " ".join(words) if len(words) >= FEWEST_WORDS else ""


def _sentences(text: str) -> list[Cut]:
    """Every sentence: alone on its line with the whole line, otherwise with the space before it."""
    found: list[Cut] = []
    for line in _lines(text):
        spans = [match.span() for match in _SENTENCE.finditer(text[line.start : line.end].rstrip("\n"))]
        if len(spans) == 1:
            found.append(line)
        else:
            starts = [start for start, _ in spans]
            found += [Cut(line.start + start, line.start + end) for start, end in pairwise(starts)]
            found += [Cut(line.start + spans[-2][1], line.start + spans[-1][1])] if len(spans) > 1 else []
    return found


def _lines(text: str) -> list[Cut]:
    """Lines that say something, each with its end."""
    return [Cut(*match.span()) for match in _LINE.finditer(text) if match.group().strip()]


def _paragraphs(text: str) -> list[Cut]:
    """Lines without a blank one between them, each paragraph with the blank lines after it."""
    lines = _lines(text)
    starts = [line.start for before, line in pairwise([Cut(-1, -1), *lines]) if before.end != line.start]
    return _up_to_the_next(text, starts)


def _up_to_the_next(text: str, starts: Sequence[int]) -> list[Cut]:
    return [Cut(start, end) for start, end in pairwise([*starts, len(text)])]


def _examples(text: str) -> list[list[Cut]]:
    return _tagged(text) or _pairs(text, _paragraphs(text)) or _pairs(text, _lines(text))


def _tagged(text: str) -> list[list[Cut]]:
    """From each opening tag to the next closing one."""
    found: list[list[Cut]] = []
    opened: int | None = None
    for tag in _EXAMPLE_TAG.finditer(text):
        if not tag.group(1):
            opened = tag.start()
        elif opened is not None:
            end = tag.end() + 1 if text[tag.end() : tag.end() + 1] == "\n" else tag.end()
            found.append([Cut(opened, end)])
            opened = None
    return found


def _pairs(text: str, units: Sequence[Cut]) -> list[list[Cut]]:
    """Units that give something and show how it is answered, at once or in those that follow."""
    found: list[list[Cut]] = []
    place = 0
    while place < len(units):
        end = place + 1
        if _GIVES.match(text, units[place].start):
            while end < len(units) and _ANSWERS.match(text, units[end].start):
                end += 1
            shown = text[units[place].start : units[place].end]
            if end > place + 1 or any(_ANSWERS.match(line) for line in shown.splitlines()):
                found.append([Cut(units[place].start, units[end - 1].end)])
        place = end
    return found


def _ablations(text: str) -> list[list[Cut]]:
    """The parts of a section, each by itself: under their headings, or else paragraphs, lines, sentences."""
    for parts in (_headed(text), _paragraphs(text), _lines(text), _sentences(text)):
        if len(parts) > 1:
            return [[part] for part in parts]
    return []


def _headed(text: str) -> list[Cut]:
    starts = [line.start for line in _lines(text) if _HEADING.match(text, line.start)]
    if starts and text[: starts[0]].strip():
        starts = [0, *starts]
    return _up_to_the_next(text, starts)


_OF_TEXTS: Final[Mapping[Strategy, Callable[[str], list[list[Cut]]]]] = {
    "whitespace": _white_space,
    "examples": _examples,
    "ablation": _ablations,
}
