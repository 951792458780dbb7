"""Where what is recorded and what is worked out again differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

TOLERANCE: Final = 1e-9
"""Relative: sums may be taken in another order, and a library may round the last digits otherwise."""

NOTHING: Final = "nothing"


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """One value that does not follow from the others."""

    field: str
    stored: Any
    recomputed: Any


def differences(stored: Any, recomputed: Any, field: str = "") -> Iterator[ReplayDifference]:
    """Every leaf in which two trees of plain values differ, by its path."""
    if isinstance(stored, dict) and isinstance(recomputed, dict):
        for name in [*stored, *(name for name in recomputed if name not in stored)]:
            below = f"{field}.{name}" if field else str(name)
            yield from differences(stored.get(name, NOTHING), recomputed.get(name, NOTHING), below)
    elif isinstance(stored, list | tuple) and isinstance(recomputed, list | tuple):
        for place in range(max(len(stored), len(recomputed))):
            one, other = (tree[place] if place < len(tree) else NOTHING for tree in (stored, recomputed))
            yield from differences(one, other, f"{field}[{place}]")
    elif not _same(stored, recomputed):
        yield ReplayDifference(field, stored, recomputed)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)
