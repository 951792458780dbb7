"""How many samples ended in an error, by its class: `timeout`, `http 500`, `raised ValueError`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

ErrorCounts = dict[str, int]

MOST_CLASSES = 12
"""A target may raise errors of any number of classes; the rest are counted together."""

OTHERS = "others"
SHOWN = 4


def summed(counts: Iterable[Mapping[str, int]]) -> ErrorCounts:
    """All counts together, the most frequent first, equal ones by name."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    rest = total.pop(OTHERS, 0)
    ordered = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    rest += sum(count for _, count in ordered[MOST_CLASSES:])
    return {**dict(ordered[:MOST_CLASSES]), **({OTHERS: rest} if rest else {})}


def told(counts: Mapping[str, int]) -> str:
    """`http 500 × 12, timeout × 3`"""
    ordered = summed([counts])
    shown = [f"{kind} × {count:,}" for kind, count in list(ordered.items())[:SHOWN]]
    rest = sum(list(ordered.values())[SHOWN:])
    return ", ".join([*shown, f"{rest:,} others"] if rest else shown)
