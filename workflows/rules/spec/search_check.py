"""Which factors a search treats, and what can be wrong with it before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from ratchet._canonical import canonical_json
from workflows.model.spec.factors import Conditional, Factor, NumberFactor, TextFactor
from workflows.model.spec.optimizers.search import SearchOptimizer
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.proposals.validation import refuse_value


def searched_factors(optimizer: SearchOptimizer, factors: Mapping[str, Factor]) -> list[str]:
    """The factors that are searched, in the order of the spec."""
    named = factors if optimizer.factors is None else optimizer.factors
    return [name for name, factor in factors.items() if name in named and isinstance(factor, Conditional)]


def search_problems(request: OptimizationRequest, optimizer: SearchOptimizer) -> Iterator[str]:
    """Everything that is wrong, with its field and the fix."""
    factors = request.configuration
    for name in optimizer.factors or ():
        if name not in factors:
            yield f"optimizer.factors: {name!r} is no factor; known are {', '.join(factors)}"
        elif not isinstance(factors[name], Conditional):
            yield (
                f"optimizer.factors: {name!r} is not searched; let it be a number, an integer, a choice, an order or a flag "
                "({value: …, change: structured, type: …})"
            )
    searched = searched_factors(optimizer, factors)
    if not searched and not optimizer.factors:
        yield "configuration: has no structured factor to search; give one ({value: …, change: structured, type: number, …})"
    for name in searched:
        yield from _of_sampler(optimizer, name, factors[name])
    if optimizer.proposer is not None and not any(isinstance(factor, TextFactor) for factor in factors.values()):
        yield "optimizer.proposer: has no text to rewrite; let a factor change as text, or drop it"


def _of_sampler(optimizer: SearchOptimizer, name: str, factor: Factor) -> Iterator[str]:
    if optimizer.sampler == "grid" and isinstance(factor, NumberFactor) and factor.step is None and factor.min < factor.max:
        yield f"configuration.{name}.step: is missing, and a grid needs it; give step, or use another sampler"


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
