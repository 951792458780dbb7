"""Conditions of factors: `when`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.spec.factors import Conditional, Factor
from workflows.rules.proposals.validation import refuse_value


def condition_problems(factors: Mapping[str, Factor]) -> Iterator[str]:
    """Conditions that can never hold, or that lead back to their own factor."""
    for name, factor in factors.items():
        for other, wanted in _conditions(factor).items():
            where = f"configuration.{name}.when"
            if other not in factors:
                yield f"{where}: {other!r} is no factor; known are {', '.join(factors)}"
            elif not any(_possible(factors[other], value) for value in wanted):
                values = ", ".join(map(canonical_json, wanted))
                yield f"{where}: {other} never has the value {values}; name one that it can have"
        if _leads_back(name, factors):
            yield f"configuration.{name}.when: leads back to {name} itself; break the circle"


def _conditions(factor: Factor) -> Mapping[str, Sequence[JsonValue]]:
    return (factor.when or {}) if isinstance(factor, Conditional) else {}


def _possible(factor: Factor, value: object) -> bool:
    return refuse_value("", value, factor) is None


def _leads_back(name: str, factors: Mapping[str, Factor]) -> bool:
    waiting, seen = [*_conditions(factors[name])], set[str]()
    while waiting:
        other = waiting.pop()
        if other == name:
            return True
        if other in factors and other not in seen:
            seen.add(other)
            waiting += _conditions(factors[other])
    return False
