"""Version numbers of prompts: what a change is, which class it has, and which number it gets.

Numbers are given when something is released, and never twice. They are compared as numbers: 1.0.10 comes after 1.0.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from ratchet._formats.canonical import canonical_json
from ratchet.prompts.template import SECTION, PromptTemplate

_VERSION = re.compile(r"v?(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")


class ChangeClass(IntEnum):
    """How much a change asks of whoever uses the prompt."""

    PATCH = 1
    MINOR = 2
    MAJOR = 3


class ChangedPart(StrEnum):
    """What may differ between two configurations of a prompt."""

    VALUE = "the value of a parameter"
    ORDER = "the order of a list"
    TEXT = "the text of a section"
    FROZEN = "a frozen part: task, rules or skills"
    STRUCTURE = "which parts there are"


CLASS_OF: Final[Mapping[ChangedPart, ChangeClass]] = {
    ChangedPart.VALUE: ChangeClass.PATCH,
    ChangedPart.ORDER: ChangeClass.MINOR,
    ChangedPart.TEXT: ChangeClass.MINOR,
    ChangedPart.FROZEN: ChangeClass.MAJOR,
    ChangedPart.STRUCTURE: ChangeClass.MAJOR,
}


class Version(NamedTuple):
    """A version number; tuples compare as numbers do."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """`1.2.3`, or `v1.2.3`."""
        found = _VERSION.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no version; write three numbers, e.g. 1.2.3")
        return cls(*(int(part) for part in found.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


FIRST: Final = Version(1, 0, 0)
"""What a prompt has before anything was released over it."""


def frozen_parts(template: PromptTemplate) -> frozenset[str]:
    """The parts of a configuration that no optimizer may change."""
    return frozenset(f"{SECTION}{section.path}" for section in template.sections if not section.accepts_overrides)


def changes(base: Mapping[str, Any], other: Mapping[str, Any], frozen: Collection[str] = ()) -> dict[str, ChangedPart]:
    """What differs between two configurations, part by part, in the order of their names."""
    names = sorted({*base, *other})
    return {name: found for name in names if (found := _change(name, base, other, frozen)) is not None}


def _change(name: str, base: Mapping[str, Any], other: Mapping[str, Any], frozen: Collection[str]) -> ChangedPart | None:
    if name not in base or name not in other:
        return ChangedPart.STRUCTURE
    before, after = canonical_json(base[name]), canonical_json(other[name])
    if before == after:
        return None
    if name in frozen:
        return ChangedPart.FROZEN
    if name.startswith(SECTION):
        return ChangedPart.TEXT
    return ChangedPart.ORDER if _reordered(base[name], other[name]) else ChangedPart.VALUE


def _reordered(before: Any, after: Any) -> bool:
    if not (isinstance(before, list) and isinstance(after, list)):
        return False
    return sorted(map(canonical_json, before)) == sorted(map(canonical_json, after))


def class_of(found: Iterable[ChangedPart]) -> ChangeClass | None:
    """The largest class among changes; None when nothing changed."""
    return max((CLASS_OF[change] for change in found), default=None)


def next_version(base: Version, change: ChangeClass, taken: Collection[Version]) -> Version:
    """The number after the base for a change of a class: the first that comes after every one of its line ever given.

    After a rollback the line of the base goes on behind what was released from it before: numbers are not used twice.
    """
    match change:
        case ChangeClass.PATCH:
            line = [version.patch for version in taken if version[:2] == base[:2]]
            return Version(base.major, base.minor, max(line, default=base.patch) + 1)
        case ChangeClass.MINOR:
            line = [version.minor for version in taken if version.major == base.major]
            return Version(base.major, max(line, default=base.minor) + 1, 0)
        case ChangeClass.MAJOR:
            return Version(max((version.major for version in taken), default=base.major) + 1, 0, 0)
