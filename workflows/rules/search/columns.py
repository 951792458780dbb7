"""Values of a factor as columns of numbers, many at a time: what models compute with."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.spec.factors import ChoiceFactor, FlagFactor, IntegerFactor, NumberFactor, OrderFactor
from workflows.rules.search.space import Numeric, Searched, from_unit, grid_of, nth, unit_of

Array = NDArray[np.float64]
Random = np.random.Generator


class SearchColumns(Protocol):
    """How the values of one factor are written in columns."""

    width: int
    """How many they are."""
    middle: Array
    """What is as far from every value, in the columns of `apart`."""

    def of(self, value: Any) -> list[float]: ...
    def value(self, columns: list[float]) -> JsonValue: ...
    def anywhere(self, count: int, random: Random) -> Array: ...

    def stepped(self, columns: Array, reach: Array, random: Random) -> Array:
        """Neighbours. Where values have distances, `reach` is how far they are, of what is possible."""
        ...

    def settled(self, columns: Array) -> Array:
        """What may be tried."""
        ...

    def apart(self, columns: Array) -> Array:
        """Columns whose squared differences are 1, in sum, between values that have nothing in common."""
        ...


def columns_of(factor: Searched) -> SearchColumns:
    match factor:
        case NumberFactor() | IntegerFactor():
            return _Number(factor)
        case ChoiceFactor() | FlagFactor():
            return _Choice(factor)
        case OrderFactor():
            return _Order(factor)


class _Number:
    """One column: the place between the ends of the range."""

    width = 1
    middle = np.array([0.5])

    def __init__(self, factor: Numeric) -> None:
        self._factor = factor
        self._grid = None if factor.min == factor.max else grid_of(factor)

    def of(self, value: Any) -> list[float]:
        return [unit_of(self._factor, float(value))]

    def value(self, columns: list[float]) -> JsonValue:
        return from_unit(self._factor, columns[0])

    def anywhere(self, count: int, random: Random) -> Array:
        return random.random((count, 1))

    def stepped(self, columns: Array, reach: Array, random: Random) -> Array:
        return np.clip(columns + random.standard_normal((len(columns), 1)) * reach[:, None], 0.0, 1.0)

    def settled(self, columns: Array) -> Array:
        if self._grid is None:
            return columns
        factor, log = self._factor, self._factor.scale == "log"
        low, high = (np.log(factor.min), np.log(factor.max)) if log else (factor.min, factor.max)
        values, step = low + columns * (high - low), factor.step or 1
        steps = np.rint(((np.exp(values) if log else values) - factor.value) / step).clip(self._grid[0], self._grid[-1])
        values = (factor.value + steps * step).clip(factor.min, factor.max)
        found: Array = ((np.log(values) if log else values) - low) / (high - low)
        return found

    def apart(self, columns: Array) -> Array:
        return columns


class _Choice:
    """One column: which of the values it is. All are as far from each other."""

    width = 1

    def __init__(self, factor: ChoiceFactor | FlagFactor) -> None:
        self._values = [nth(factor, place) for place in range(2 if isinstance(factor, FlagFactor) else len(factor.choices))]
        self._places = {_key(value): [float(place)] for place, value in enumerate(self._values)}
        self._initial = self._places[_key(factor.value)]
        self.middle = np.full(len(self._values), np.sqrt(0.5) / len(self._values))

    def of(self, value: Any) -> list[float]:
        return self._places.get(_key(value), self._initial)

    def value(self, columns: list[float]) -> JsonValue:
        return self._values[int(columns[0])]

    def anywhere(self, count: int, random: Random) -> Array:
        return random.integers(len(self._values), size=(count, 1)).astype(float)

    def stepped(self, columns: Array, reach: Array, random: Random) -> Array:
        count = len(self._values)
        return (columns + random.integers(1, count, size=columns.shape)) % count

    def settled(self, columns: Array) -> Array:
        return columns

    def apart(self, columns: Array) -> Array:
        found: Array = (columns == np.arange(len(self._values))) * np.sqrt(0.5)
        return found


class _Order:
    """A column for every item: where it stands. Orders are the further apart, the more pairs of items stand the other way."""

    def __init__(self, factor: OrderFactor) -> None:
        self._items = factor.value
        self._names = [_key(item) for item in self._items]
        self.width = len(self._items)
        self._pairs = np.triu_indices(self.width, 1)
        self._each = 1 / np.sqrt(max(len(self._pairs[0]), 1))
        self.middle = np.full(len(self._pairs[0]), self._each / 2)

    def of(self, value: Any) -> list[float]:
        shown = {_key(item): float(place) for place, item in enumerate(value)}
        return [shown[name] for name in self._names]

    def value(self, columns: list[float]) -> JsonValue:
        return [self._items[place] for place in sorted(range(self.width), key=columns.__getitem__)]

    def anywhere(self, count: int, random: Random) -> Array:
        return random.permuted(np.tile(np.arange(self.width, dtype=float), (count, 1)), axis=1)

    def stepped(self, columns: Array, reach: Array, random: Random) -> Array:
        first, second = np.argsort(random.random(columns.shape), axis=1)[:, :2].T
        swapped, every = columns.copy(), np.arange(len(columns))
        swapped[every, first], swapped[every, second] = columns[every, second], columns[every, first]
        return swapped

    def settled(self, columns: Array) -> Array:
        return columns

    def apart(self, columns: Array) -> Array:
        first, second = self._pairs
        found: Array = (columns[:, first] < columns[:, second]) * self._each
        return found


def _key(value: JsonValue) -> str | tuple[str]:
    """What equal values have in common; of texts, themselves: that takes no time."""
    return value if isinstance(value, str) else (canonical_json(value),)
