"""One step from one of the best: another choice, a flag turned, two items of an order swapped. Numbers stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from workflows.model.factors import Configuration
from workflows.rules.stepping import can_step, step
from workflows.rules.suggesting.space import Space, numeric
from workflows.rules.suggesting.told import Told, penalized

BEST = 5
"""One of so many is the start."""

TOLD_FROM = 20
"""Before, the best ones are hardly better than others."""


class Neighbour:
    """Estimators of densities settle early on the choices of the best trials; this keeps asking whether another is better."""

    name = "neighbour"

    def __init__(self, space: Space, told: Sequence[Told], seed: int) -> None:
        self._space = space
        self._random = Random(seed)
        losses = penalized(told)
        ranked = sorted(range(len(told)), key=lambda place: (losses[place], place))[:BEST]
        self._best = [told[place].values for place in ranked]
        self.usable = len(told) >= TOLD_FROM and any(map(self._movable, self._best))

    def draw(self) -> Configuration:
        start = self._random.choice([values for values in self._best if self._movable(values)])
        name = self._random.choice(self._movable(start))
        return {**start, name: step(start[name], self._space.factors[name], self._random)}

    def _movable(self, values: Configuration) -> list[str]:
        """What counts, and is no number."""
        active = self._space.active(values)
        numbers = dict(numeric(self._space, active))
        return [name for name in active if name not in numbers and can_step(self._space.factors[name])]
