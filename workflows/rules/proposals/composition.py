"""Composition of changes that were tried one by one: each alone, then all that did no harm together, then greedily.

Pure bookkeeping over what was measured: given the same outcomes it asks for the same set next, and never for one that was
measured before, whichever step it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Parts = frozenset[str]
"""Changes that are made together, by their ids."""


@dataclass(frozen=True, slots=True)
class Part:
    """One change."""

    part_id: str
    path: str
    """What it changes. Changes of the same path go together unless one of them is exclusive."""
    saving: int
    """What it is worth; larger ones are preferred."""
    exclusive: bool = False
    """It rewrites its path as a whole, so that no other change of the same path fits beside it."""


@dataclass(frozen=True, slots=True)
class CompositionStep:
    """What to measure next, or what remains in the end."""

    phase: Literal["alone", "together", "greedy", "done"]
    measure: tuple[Parts, ...] = ()
    chosen: Parts = frozenset()


def next_step(parts: Sequence[Part], accepted: Mapping[Parts, bool]) -> CompositionStep:
    """Where the composition stands. `accepted` says of every set that was measured whether it did no harm."""
    ordered = sorted(parts, key=lambda part: (-part.saving, part.part_id))
    alone = tuple(only(part) for part in ordered if only(part) not in accepted)
    if alone:
        return CompositionStep("alone", measure=alone)
    harmless = [part for part in ordered if accepted[only(part)]]
    together = combined(harmless)
    if len(together) < 2 or accepted.get(together, False):
        return CompositionStep("done", chosen=together)
    if together not in accepted:
        return CompositionStep("together", measure=(together,))
    return _greedily(harmless, accepted)


def _greedily(harmless: Sequence[Part], accepted: Mapping[Parts, bool]) -> CompositionStep:
    """One after another, the largest saving first; each stays if the set with it did no harm."""
    kept: list[Part] = []
    for part in harmless:
        if any(collide(part, other) for other in kept):
            continue
        tried = frozenset(one.part_id for one in [*kept, part])
        if tried not in accepted:
            return CompositionStep("greedy", measure=(tried,))
        if accepted[tried]:
            kept.append(part)
    return CompositionStep("done", chosen=frozenset(part.part_id for part in kept))


def combined(harmless: Iterable[Part]) -> Parts:
    """All that fit together. Where changes of one path exclude each other, those that save more."""
    by_path: dict[str, list[Part]] = {}
    for part in harmless:
        by_path.setdefault(part.path, []).append(part)
    return frozenset(part.part_id for same in by_path.values() for part in _best_of_path(same))


def _best_of_path(same: Sequence[Part]) -> Sequence[Part]:
    beside = [part for part in same if not part.exclusive]
    rewritten = max((part for part in same if part.exclusive), key=lambda part: (part.saving, part.part_id), default=None)
    if rewritten is None or rewritten.saving < sum(part.saving for part in beside):
        return beside
    return [rewritten]


def only(part: Part) -> Parts:
    """The set of nothing else."""
    return frozenset([part.part_id])


def collide(one: Part, other: Part) -> bool:
    """Whether two changes cannot be made together."""
    return one.path == other.path and one.part_id != other.part_id and (one.exclusive or other.exclusive)
