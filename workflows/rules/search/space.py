"""The space of a search: what its factors can be, and which of them count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import JsonValue, TypeAdapter

from ratchet._formats.canonical import canonical_json, normalize
from ratchet.domains import misfit
from workflows.model.spec.factors import ChoiceFactor, Configuration, FlagFactor, IntegerFactor, NumberFactor, OrderFactor

Searched = NumberFactor | IntegerFactor | ChoiceFactor | OrderFactor | FlagFactor
Numeric = NumberFactor | IntegerFactor

DIGITS = 9
"""Significant digits of a number, relative to its range."""

_FACTORS: TypeAdapter[dict[str, Searched]] = TypeAdapter(dict[str, Searched])


@dataclass(frozen=True)
class Space:
    """Factors in an order in which those that decide come before those that depend on them."""

    factors: Mapping[str, Searched]
    held: Configuration
    """What is not searched and stays as it is."""

    @classmethod
    def of(cls, definitions: Any, held: Configuration) -> Space:
        """From the factors of a spec; circles among conditions were refused before the run."""
        factors = _FACTORS.validate_python(definitions)
        ordered: dict[str, Searched] = {}
        while len(ordered) < len(factors):
            for name, factor in factors.items():
                if name not in ordered and all(one in ordered or one not in factors for one in factor.when or ()):
                    ordered[name] = factor
        return cls(ordered, {name: value for name, value in held.items() if name not in ordered})

    def settled(self, drawn: Mapping[str, JsonValue]) -> Configuration:
        """The values, which are in canonical form, with what does not count at its initial value."""
        values: Configuration = {}
        for name in self.factors:
            values[name] = drawn[name] if name in drawn and self.counts(name, values) else self._initial[name]
        return values

    @cached_property
    def _initial(self) -> Configuration:
        return {name: normalize(factor.value) for name, factor in self.factors.items()}

    def counts(self, name: str, values: Configuration) -> bool:
        """Whether a factor counts, given the values of all that it depends on."""
        for other, wanted in self._conditions.get(name, ()):
            if other in self.factors and not self.counts(other, values):
                return False
            if canonical_json(values.get(other, self.held.get(other))) not in wanted:
                return False
        return True

    @cached_property
    def _conditions(self) -> dict[str, list[tuple[str, frozenset[str]]]]:
        """Of each factor that has some: the others, and the values that they must have."""
        return {
            name: [(other, frozenset(map(canonical_json, wanted))) for other, wanted in factor.when.items()]
            for name, factor in self.factors.items()
            if factor.when
        }

    def active(self, values: Configuration) -> tuple[str, ...]:
        """The factors that count."""
        return tuple(name for name in self.factors if self.counts(name, values))

    def fits(self, configuration: Configuration) -> bool:
        """Whether every searched value that is there is one that is allowed here."""
        return all(
            misfit(factor, configuration[name]) is None for name, factor in self.factors.items() if name in configuration
        )

    @property
    def is_of_numbers(self) -> bool:
        """Whether there is nothing but numbers that always count."""
        return all(isinstance(one, NumberFactor | IntegerFactor) and not one.when for one in self.factors.values())

    @cached_property
    def size(self) -> int | None:
        """How many combinations there are, those that differ only in what does not count included; None: infinitely many."""
        sizes = [size_of(factor) for factor in self.factors.values()]
        finite = [size for size in sizes if size is not None]
        return math.prod(finite) if len(finite) == len(sizes) else None

    def combination(self, place: int) -> Configuration:
        """One of the combinations of a finite space."""
        drawn: dict[str, JsonValue] = {}
        for name, factor in self.factors.items():
            size = size_of(factor)
            assert size is not None
            place, index = divmod(place, size)
            drawn[name] = normalize(nth(factor, index))
        return self.settled(drawn)


def size_of(factor: Searched) -> int | None:
    """How many values a factor can have."""
    match factor:
        case NumberFactor() | IntegerFactor():
            grid = grid_of(factor)
            return None if grid is None else len(grid)
        case ChoiceFactor():
            return len(factor.choices)
        case FlagFactor():
            return 2
        case OrderFactor():
            return math.factorial(len(factor.value))


def nth(factor: Searched, index: int) -> JsonValue:
    """A value by its number."""
    match factor:
        case NumberFactor() | IntegerFactor():
            grid = grid_of(factor)
            assert grid is not None
            return on_grid(factor, grid[index])
        case ChoiceFactor():
            return factor.choices[index]
        case FlagFactor():
            return bool(index)
        case OrderFactor():
            return _permutation(factor.value, index)


def category_of(factor: ChoiceFactor | FlagFactor, value: JsonValue) -> int:
    """The number of a value; of a choice that is not there, the initial one's."""
    if isinstance(factor, FlagFactor):
        return int(bool(value))
    known = [canonical_json(choice) for choice in factor.choices]
    shown = canonical_json(value)
    return known.index(shown if shown in known else canonical_json(factor.value))


def _permutation(items: Sequence[JsonValue], index: int) -> list[JsonValue]:
    left, order = list(items), []
    for count in range(len(items), 0, -1):
        index, place = divmod(index, count)
        order.append(left.pop(place))
    return order


# -- numbers ------------------------------------------------------------------------------------------------------------------


def grid_of(factor: Numeric) -> range | None:
    """Whole steps from the initial value, as far as the range goes; None for a number that may be anything in it."""
    step = factor.step if factor.step is not None else 1 if isinstance(factor, IntegerFactor) else None
    if step is None:
        return None if factor.min < factor.max else range(1)
    slack = 1e-9
    down, up = (factor.value - factor.min) / step, (factor.max - factor.value) / step
    return range(-math.floor(down + slack), math.floor(up + slack) + 1)


def on_grid(factor: Numeric, steps: int) -> JsonValue:
    """The value so many steps from the initial one."""
    if isinstance(factor, IntegerFactor):
        return factor.value + steps * (factor.step or 1)
    return min(max(round(factor.value + steps * (factor.step or 0.0), 12), factor.min), factor.max)


def nearest_step(factor: Numeric, grid: range, value: float) -> int:
    """The place on the grid that is nearest to a value."""
    steps = round((value - factor.value) / (factor.step or 1))
    return min(max(steps, grid[0]), grid[-1])


def unit_of(factor: Numeric, value: float) -> float:
    """Where a value is between the ends of its range: from 0 to 1."""
    if factor.min == factor.max:
        return 0.5
    low, high, at = factor.min, factor.max, min(max(value, factor.min), factor.max)
    if factor.scale == "log":
        low, high, at = math.log(low), math.log(high), math.log(at)
    return (at - low) / (high - low)


def from_unit(factor: Numeric, place: float) -> JsonValue:
    """The value there; one that may be tried."""
    place = min(max(place, 0.0), 1.0)
    if factor.scale == "log":
        value = math.exp(math.log(factor.min) + place * (math.log(factor.max) - math.log(factor.min)))
    else:
        value = factor.min + place * (factor.max - factor.min)
    grid = grid_of(factor)
    if grid is not None:
        return on_grid(factor, nearest_step(factor, grid, value))
    finest = abs(value) if factor.scale == "log" else factor.max - factor.min
    digits = DIGITS - math.ceil(math.log10(finest))
    return min(max(round(value, digits), factor.min), factor.max)


# -- orders -------------------------------------------------------------------------------------------------------------------


def places_of(factor: OrderFactor, order: Sequence[JsonValue]) -> list[float]:
    """Where each item of the initial order stands, from 0 to 1: near orders have near places."""
    shown = [canonical_json(item) for item in order]
    last = max(len(shown) - 1, 1)
    return [shown.index(canonical_json(item)) / last for item in factor.value]


def ordered_by(factor: OrderFactor, places: Sequence[float]) -> list[JsonValue]:
    """The items by their places; equal places keep the initial order."""
    return [factor.value[index] for index in sorted(range(len(places)), key=lambda index: (places[index], index))]


def numeric(space: Space) -> Iterator[tuple[str, Numeric]]:
    """The numbers of a space that have more than one value."""
    for name, factor in space.factors.items():
        if isinstance(factor, NumberFactor | IntegerFactor) and factor.min < factor.max:
            yield name, factor
