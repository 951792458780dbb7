"""Structured mutations: deterministic operators over typed parameters, each saying in words what it did.

`mutate` returns new parameters and leaves its input alone. At the end of a range it answers with what is there already, which
validation refuses as `no_change`; what cannot be done at all raises `CannotMutate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.spec.extensions.mutation_kinds import (
    LimitChange,
    LimitsMutation,
    Mutation,
    PriorityMutation,
    RiskMutation,
    ThresholdMutation,
)
from workflows.model.spec.factors import Configuration, Factor, IntegerFactor, NumberFactor, OrderFactor

DIGITS: Final = 12
"""Digits after the point that survive a step: 0.7 + 0.1 is 0.8."""

OF_A_PROMPT: Final = "param:"
"""Begins the factor of a prompt's parameter. Mutations may leave it out, and descriptions do."""

ATTITUDES: Final = ("very conservative", "conservative", "balanced", "aggressive", "very aggressive")
"""Risk in words, from one end of the range to the other."""


class CannotMutate(ValueError):
    """A mutation that its parameters do not allow: an unknown one, a value of another type, an item that is not there."""


@dataclass(frozen=True, slots=True)
class Mutated:
    """What a mutation made, and what it did in words."""

    parameters: Configuration
    description: str


def mutate(parameters: Mapping[str, JsonValue], mutation: Mutation, factors: Mapping[str, Factor]) -> Mutated:
    """The parameters after one mutation; `factors` say what each may be."""
    match mutation:
        case ThresholdMutation():
            return _adjusted(parameters, mutation, factors)
        case PriorityMutation():
            return _reordered(parameters, mutation, factors)
        case RiskMutation():
            return _risked(parameters, mutation, factors)
        case LimitsMutation():
            return _limited(parameters, mutation, factors)


def addressed(name: str, factors: Mapping[str, Factor]) -> str:
    """The factor that a mutation means: the one of that name, or the prompt's parameter of that name."""
    return name if name in factors or f"{OF_A_PROMPT}{name}" not in factors else f"{OF_A_PROMPT}{name}"


def refuse_mutation(mutation: Mutation, factors: Mapping[str, Factor]) -> str | None:
    """Why a mutation can never be applied to these factors, if it cannot; the baseline's values stand for all others."""
    try:
        mutate({name: factor.value for name, factor in factors.items()}, mutation, factors)
    except CannotMutate as error:
        return str(error)
    return None


def _adjusted(parameters: Mapping[str, JsonValue], mutation: ThresholdMutation, factors: Mapping[str, Factor]) -> Mutated:
    name = addressed(mutation.factor, factors)
    before, factor = _number(parameters, name, factors)
    sign = 1 if mutation.direction == "increase" else -1
    after = _inside(before + sign * mutation.delta, factor)
    moved = f"{before:.3f} → {after:.3f} ({mutation.direction}, Δ={abs(after - before):.3f})"
    return Mutated({**parameters, name: after}, f"Adjusted {_told(name)}: {moved}")


def _risked(parameters: Mapping[str, JsonValue], mutation: RiskMutation, factors: Mapping[str, Factor]) -> Mutated:
    name = addressed(mutation.factor, factors)
    before, factor = _number(parameters, name, factors)
    wanted = mutation.to if mutation.to is not None else before + (mutation.by or 0.0)
    after = _inside(wanted, factor)
    told = f"{_attitude(before, factor)} ({before:.3f}) → {_attitude(after, factor)} ({after:.3f})"
    return Mutated({**parameters, name: after}, f"Changed {_in_words(name)}: {told}")


def _attitude(value: float, factor: NumberFactor | IntegerFactor) -> str:
    """The nearest quarter of the range."""
    share = (value - factor.min) / (factor.max - factor.min) if factor.max > factor.min else 0.5
    return ATTITUDES[round(share * 4)]


def _reordered(parameters: Mapping[str, JsonValue], mutation: PriorityMutation, factors: Mapping[str, Factor]) -> Mutated:
    name = addressed(mutation.factor, factors)
    before = _order(parameters, name, factors)
    match mutation.operation:
        case "rotate":
            after = [*before[-1:], *before[:-1]]
            what = f"Rotated {_in_words(name)}"
        case "prioritize":
            moved, others = _taken_out(before, mutation)
            after, what = [moved, *others], f"Prioritized {moved!r}"
        case "deprioritize":
            moved, others = _taken_out(before, mutation)
            after, what = [*others, moved], f"Deprioritized {moved!r}"
    return Mutated({**parameters, name: after}, f"{what}: {before} → {after}")


def _taken_out(order: Sequence[JsonValue], mutation: PriorityMutation) -> tuple[JsonValue, list[JsonValue]]:
    wanted = canonical_json(mutation.skill)
    found = [item for item in order if canonical_json(item) == wanted]
    if not found:
        raise CannotMutate(f"{mutation.skill!r} is not in {mutation.factor!r}, which orders {list(order)}")
    return found[0], [item for item in order if canonical_json(item) != wanted]


def _limited(parameters: Mapping[str, JsonValue], mutation: LimitsMutation, factors: Mapping[str, Factor]) -> Mutated:
    changed: Configuration = dict(parameters)
    told: list[str] = []
    for named, change in mutation.changes.items():
        name = addressed(named, factors)
        before, factor = _number(parameters, name, factors)
        after = _inside(_new_limit(before, change, factor), factor)
        changed[name] = after
        told.append(f"{_told(name).removeprefix('max_')}: {before:.12g} → {after:.12g}")
    return Mutated(changed, f"Adjusted limits: {', '.join(told)}")


def _new_limit(before: float, change: LimitChange, factor: NumberFactor | IntegerFactor) -> float:
    if change.to is not None:
        return change.to
    assert change.times is not None
    wanted = before * change.times
    if isinstance(factor, IntegerFactor) and change.times != 1 and round(wanted) == before:
        return before + (1 if wanted > before else -1)
    return wanted


def _inside(wanted: float, factor: NumberFactor | IntegerFactor) -> float:
    """The nearest value that the factor allows, without the dust that floats leave in the last digits."""
    value = round(wanted) if isinstance(factor, IntegerFactor) else round(wanted, DIGITS)
    return min(max(value, factor.min), factor.max)


def _told(name: str) -> str:
    return name.removeprefix(OF_A_PROMPT)


def _in_words(name: str) -> str:
    return _told(name).replace("_", " ")


def _number(
    parameters: Mapping[str, JsonValue], name: str, factors: Mapping[str, Factor]
) -> tuple[float, NumberFactor | IntegerFactor]:
    factor, value = factors.get(name), parameters.get(name)
    if not isinstance(factor, NumberFactor | IntegerFactor):
        raise CannotMutate(f"{name!r} {_what_it_is(factor, factors)}; it must be change: structured, type: number or integer")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CannotMutate(f"{name!r} is {value!r}, which is not a number")
    return value, factor


def _order(parameters: Mapping[str, JsonValue], name: str, factors: Mapping[str, Factor]) -> list[JsonValue]:
    factor, value = factors.get(name), parameters.get(name)
    if not isinstance(factor, OrderFactor):
        raise CannotMutate(f"{name!r} {_what_it_is(factor, factors)}; it must be change: structured, type: order")
    if not isinstance(value, list):
        raise CannotMutate(f"{name!r} is {value!r}, which is not an order")
    return value


def _what_it_is(factor: Factor | None, factors: Mapping[str, Factor]) -> str:
    if factor is None:
        return f"is no factor (known are {', '.join(factors)})"
    return "is frozen" if factor.change == "frozen" else f"is of type {getattr(factor, 'type', factor.change)}"
