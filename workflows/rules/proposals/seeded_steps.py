"""Seeded steps over structured factors: the mutation that needs no model."""

from __future__ import annotations

from random import Random
from typing import Any

from ratchet._formats.canonical import canonical_json
from workflows.model.spec.factors import ChoiceFactor, Factor, FlagFactor, IntegerFactor, NumberFactor, OrderFactor

FURTHEST = 3
"""A number moves by one to so many steps."""


def can_step(factor: Factor) -> bool:
    """Whether a factor has neighbours to move to."""
    match factor:
        case ChoiceFactor():
            return len(factor.choices) > 1
        case OrderFactor():
            return len(factor.value) > 1
        case NumberFactor() | IntegerFactor():
            return factor.min < factor.max
    return isinstance(factor, FlagFactor)


def step(value: Any, factor: Factor, random: Random) -> Any:
    """A neighbour of the value: never the value itself, never outside the domain."""
    match factor:
        case FlagFactor():
            return not value
        case ChoiceFactor():
            return random.choice([choice for choice in factor.choices if canonical_json(choice) != canonical_json(value)])
        case OrderFactor():
            return _swapped(value, random)
        case NumberFactor():
            return _moved(value, factor.min, factor.max, factor.step or (factor.max - factor.min) / 10, random)
        case IntegerFactor():
            size = factor.step or max((factor.max - factor.min) // 10, 1)
            return int(_moved(value, factor.min, factor.max, size, random))
    raise TypeError(f"{type(factor).__name__} has no steps")


def _swapped(items: list[Any], random: Random) -> list[Any]:
    first, second = random.sample(range(len(items)), 2)
    swapped = list(items)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return swapped


def _moved(value: float, low: float, high: float, size: float, random: Random) -> float:
    distance = size * random.randint(1, FURTHEST)
    up = random.random() < 0.5
    for candidate in (value + distance, value - distance) if up else (value - distance, value + distance):
        for shown in (round(candidate, 12), candidate):
            if low <= shown <= high and shown != value:
                return shown
    return high if high - value >= value - low else low
