"""Every combination of a finite space once, in a seeded order that need not be remembered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from workflows.model.spec.factors import Configuration
from workflows.rules.search.space import Space

LONGEST_WALK = 20_000
"""So many combinations are looked at for new ones in one batch."""


def combinations(space: Space, seed: int, cursor: int) -> Iterator[Configuration]:
    """From a place in that order on. The order is the steps of one stride through all combinations, which meets each of them
    because it has no divisor in common with how many there are."""
    assert space.size is not None
    size, random = space.size, Random(seed)
    start, stride = random.randrange(size), random.randrange(size) + 1
    while math.gcd(stride, size) != 1:
        stride += 1
    for step in range(cursor, min(size, cursor + LONGEST_WALK)):
        yield space.combination((start + step * stride) % size)
