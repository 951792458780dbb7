"""How far texts with placeholders unfold, told without unfolding them: in time linear in their length.

Factors may name factors. Ten short ones that name each other twice make a thousand texts of one, and thirty a thousand million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from ratchet._text.placeholders import LARGEST_UNFOLDING, MOST_SUBSTITUTIONS, as_text, every_placeholder

_ENOUGH = 10**12
"""Beyond this, what is too much is not counted further."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What factors add to a text."""

    characters: int = 0
    substitutions: int = 0

    @property
    def is_too_far(self) -> bool:
        return self.characters > LARGEST_UNFOLDING or self.substitutions > MOST_SUBSTITUTIONS

    def plus(self, other: Extent, times: int = 1) -> Extent:
        return Extent(
            min(self.characters + times * other.characters, _ENOUGH),
            min(self.substitutions + times * other.substitutions, _ENOUGH),
        )

    def or_more(self, other: Extent) -> Extent:
        """At least as much as both."""
        return Extent(max(self.characters, other.characters), max(self.substitutions, other.substitutions))


def too_far(extent: Extent) -> str:
    """What is wrong with texts that unfold too far, and what to do."""
    return (
        f"with placeholders filled in, factors add {_shown(extent.characters)} characters in {_shown(extent.substitutions)} "
        f"substitutions; at most {LARGEST_UNFOLDING:,} in {MOST_SUBSTITUTIONS:,} are allowed, let factors name each other less"
    )


def _shown(count: int) -> str:
    return f"{count:,}" if count < _ENOUGH else f"over {_ENOUGH:,}"


@dataclass(frozen=True, slots=True)
class _Text:
    """One of the texts that a factor may have."""

    characters: int
    named: Mapping[str, int]
    """How often it names which factors."""


class Unfolding:
    """What factors show of each other."""

    def __init__(self, values: Mapping[str, Iterable[JsonValue]], together: Mapping[str, Iterable[str]] | None = None) -> None:
        """`values` has every value that a factor may have, `together` the names that stand for several factors in a row."""
        self._texts = {name: [_text(value) for value in possible] for name, possible in values.items()}
        self._texts |= {name: [_Text(0, Counter(parts))] for name, parts in (together or {}).items()}
        self._circles: dict[str, str] = {}
        """By factor, one of those that it leads to and that lead to it; a factor of no circle has itself."""
        self._extents: dict[str, Extent] = {}
        self._endless: set[str] = set()
        for name in self._texts:
            if name not in self._circles:
                self._explore(name)

    def of(self, text: str) -> Extent:
        """What factors add to a text. A circle counts once."""
        return self._added(_text(text).named)

    def leads_back(self, factor: str, named: str) -> bool:
        """Whether a factor is named in turn by one that it names, directly or by way of others."""
        return factor in self._circles and self._circles[factor] == self._circles.get(named)

    def never_ends(self, placeholder: str) -> bool:
        """Whether a placeholder names a factor in a circle, or one that leads into a circle."""
        return placeholder.removeprefix("factors.") in self._endless and placeholder.startswith("factors.")

    def reached(self, texts: Iterable[str]) -> set[str]:
        """Every name that texts show, directly or by way of others."""
        reached: set[str] = set()
        waiting = [name for text in texts for name in _text(text).named]
        while waiting:
            name = waiting.pop()
            if name in self._texts and name not in reached:
                reached.add(name)
                waiting += [other for text in self._texts[name] for other in text.named]
        return reached

    def _added(self, named: Mapping[str, int]) -> Extent:
        added = Extent()
        for name, times in named.items():
            if name in self._extents:
                added = added.plus(self._extents[name], times)
        return added

    def _explore(self, start: str) -> None:
        """Strongly connected components, by Tarjan: each is closed after all that it leads to."""
        order, lowest, unclosed = {start: 0}, {start: 0}, [start]
        waiting = [(start, self._named_by(start))]
        while waiting:
            name, others = waiting[-1]
            other = next(others, None)
            if other is None:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == order[name]:
                    self._close(unclosed, name)
            elif other in order:
                if other not in self._circles:
                    lowest[name] = min(lowest[name], order[other])
            elif other in self._texts and other not in self._circles:
                order[other] = lowest[other] = len(order)
                unclosed.append(other)
                waiting.append((other, self._named_by(other)))

    def _named_by(self, name: str) -> Iterator[str]:
        return (other for text in self._texts[name] for other in text.named)

    def _close(self, unclosed: list[str], name: str) -> None:
        circle: list[str] = []
        while name not in circle[-1:]:
            circle.append(unclosed.pop())
        self._circles |= dict.fromkeys(circle, name)
        named = {other for member in circle for other in self._named_by(member)}
        if not named.isdisjoint(circle) or not named.isdisjoint(self._endless):
            self._endless.update(circle)
        self._extents |= {member: self._extent(member) for member in circle}

    def _extent(self, name: str) -> Extent:
        """Of the longest text that a factor may have."""
        most = Extent()
        for text in self._texts[name]:
            most = most.or_more(Extent(text.characters, 1).plus(self._added(text.named)))
        return most


def _text(value: JsonValue) -> _Text:
    """Of what is no text, placeholders are never read."""
    if not isinstance(value, str):
        return _Text(len(as_text(value)), {})
    named = (name.removeprefix("factors.") for name in every_placeholder(value) if name.startswith("factors."))
    return _Text(len(value), Counter(named))
