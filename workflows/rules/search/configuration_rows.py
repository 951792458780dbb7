"""Configurations as rows of numbers, many at a time: drawn, moved, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.spec.factors import Configuration
from workflows.rules.search.columns import Array, Random, columns_of
from workflows.rules.search.space import Space, size_of

Mask = NDArray[np.bool_]

NEAREST, FURTHEST = 0.002, 0.3
"""How far a number moves in one step, of its range: anything in between, by orders of magnitude."""

SHARES = (0.0, 0.2, 0.5)
"""How many factors move in one step beside the one, of all: one of these each time."""

SAME = 1e-9
"""Places that are no further apart are the same."""


class Rows:
    """The rows of one space."""

    def __init__(self, space: Space) -> None:
        self._kinds = {name: columns_of(factor) for name, factor in space.factors.items()}
        self._columns: dict[str, slice] = {}
        width = 0
        for name, kind in self._kinds.items():
            self._columns[name] = slice(width, width + kind.width)
            width += kind.width
        self._initial = self.of({name: factor.value for name, factor in space.factors.items()})
        self._conditions = {name: self._condition(factor.when, space) for name, factor in space.factors.items() if factor.when}
        self._movable = [name for name, factor in space.factors.items() if size_of(factor) != 1]

    def of(self, values: Mapping[str, JsonValue]) -> Array:
        """One configuration as a row."""
        return np.array([number for name, kind in self._kinds.items() for number in kind.of(values[name])])

    def values(self, row: Array) -> Configuration:
        """The configuration of a row."""
        return {name: kind.value(row[self._columns[name]].tolist()) for name, kind in self._kinds.items()}

    def anywhere(self, count: int, random: Random) -> Array:
        """Rows from all over the space."""
        return self._settled(np.hstack([kind.anywhere(count, random) for kind in self._kinds.values()]))

    def stepped(self, rows: Array, random: Random) -> Array:
        """Neighbours of rows: in each, one factor that counts has moved, or some."""
        rows = rows.copy()
        counted = np.stack([self._counts(name, rows) for name in self._movable], axis=1)
        moved = counted & (random.random(counted.shape) < random.choice(SHARES, (len(rows), 1)))
        moved[np.arange(len(rows)), np.where(counted, random.random(counted.shape), -1.0).argmax(axis=1)] = True
        reach = np.exp(random.uniform(np.log(NEAREST), np.log(FURTHEST), len(rows)))
        for place, name in enumerate(self._movable):
            chosen, columns = moved[:, place], self._columns[name]
            rows[chosen, columns] = self._kinds[name].stepped(rows[chosen, columns], reach[chosen], random)
        return self._settled(rows)

    def apart(self, rows: Array) -> list[Array]:
        """What rows differ by, factor by factor. What does not count is as far from all that does."""
        found = []
        for name in self._movable:
            kind = self._kinds[name]
            columns = kind.apart(rows[:, self._columns[name]])
            if name in self._conditions:
                columns = np.where(self._counts(name, rows)[:, None], columns, kind.middle)
            found.append(columns)
        return found

    def _settled(self, rows: Array) -> Array:
        """With values that may be tried, and what does not count at its initial value."""
        for name, kind in self._kinds.items():
            columns = self._columns[name]
            rows[:, columns] = kind.settled(rows[:, columns])
            if name in self._conditions:
                rows[~self._counts(name, rows), columns] = self._initial[columns]
        return rows

    def _counts(self, name: str, rows: Array) -> Mask:
        """In which rows a factor counts."""
        counted = np.ones(len(rows), dtype=bool)
        for other, wanted in self._conditions.get(name, {}).items():
            if isinstance(wanted, bool):
                counted &= wanted
                continue
            columns = rows[:, self._columns[other]]
            held: Mask = np.abs(columns[:, None] - wanted).max(axis=2).min(axis=1) < SAME
            counted &= held
            counted &= self._counts(other, rows)
        return counted

    def _condition(self, when: Mapping[str, Sequence[JsonValue]], space: Space) -> dict[str, Array | bool]:
        """Columns of other factors at which a condition holds; for what is not searched, whether it does."""
        found: dict[str, Array | bool] = {}
        for other, wanted in when.items():
            if other in self._kinds:
                found[other] = np.array([self._kinds[other].of(value) for value in wanted]) if wanted else False
            else:
                found[other] = canonical_json(space.held.get(other)) in {canonical_json(value) for value in wanted}
        return found
