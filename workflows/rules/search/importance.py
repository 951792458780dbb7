"""Which factors mattered: a functional ANOVA of an additive model of the loss.

The model has a curve for every number, a level for every choice and a weight for every item's place in an order, fitted to all
trials at once by ridge regression. What a factor matters is how much its part of the loss varies over the whole space: unlike
counts of what good trials have in common, that does not depend on where a search has looked most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from ratchet._formats.canonical import canonical_json
from workflows.model.activities.computation import Stored
from workflows.model.activities.search_plans import Importance, Importances, SearchedSpace
from workflows.model.spec.factors import ChoiceFactor, FlagFactor, IntegerFactor, NumberFactor, OrderFactor
from workflows.rules.search.observations import told_of
from workflows.rules.search.space import Searched, Space, category_of, from_unit, nth, places_of, size_of, unit_of

Array = NDArray[np.float64]

FEWEST = 10
"""Trials that say anything about importance."""

KNOTS = 6
"""Of a number's curve, which is straight between them."""

RIDGE = 0.5
"""As if so many trials had said of every level that it is like all others."""

SEEN = 200
"""Values of a factor over which its part of the loss is looked at."""


def importances(stored: Stored, arguments: Mapping[str, Any]) -> JsonValue:
    """Tell what each factor matters, as `Importances`; see `SearchedSpace` for the arguments. Nothing where there are too few
    trials, or where all scores are the same."""
    found: JsonValue = _importances(stored, SearchedSpace.model_validate(arguments)).model_dump(mode="json")
    return found


def _importances(stored: Stored, asked: SearchedSpace) -> Importances:
    base = next((trial.configuration for trial in stored.trials if trial.candidate_id == asked.base), {})
    space = Space.of(asked.factors, base)
    told = [one for one in told_of(stored.trials, space, maximize=asked.maximize) if one.loss is not None]
    losses = np.array([one.loss for one in told], dtype=float)
    if len(told) < FEWEST or losses.min() == losses.max():
        return Importances(trials=len(told))
    parts = {
        name: np.array([_levels(factor, one.values[name]) if space.counts(name, one.values) else _none(factor) for one in told])
        for name, factor in space.factors.items()
    }
    solved = _fitted(np.hstack(list(parts.values())), losses)
    varying: dict[str, float] = {}
    for name, factor in space.factors.items():
        own, solved = solved[: parts[name].shape[1]], solved[parts[name].shape[1] :]
        seen = np.array([_levels(factor, value) for value in _values(factor)])
        varying[name] = float(np.var(seen @ own)) * _chance_to_count(space, name)
    return _ranked(varying, len(told))


def _fitted(terms: Array, losses: Array) -> Array:
    centred = terms - terms.mean(axis=0)
    gram = centred.T @ centred + RIDGE * np.eye(terms.shape[1])
    solved: Array = np.linalg.solve(gram, centred.T @ (losses - losses.mean()))
    return solved


def _levels(factor: Searched, value: Any) -> list[float]:
    match factor:
        case NumberFactor() | IntegerFactor():
            at = unit_of(factor, float(value)) * (KNOTS - 1)
            return [max(0.0, 1 - abs(at - knot)) for knot in range(KNOTS)]
        case ChoiceFactor() | FlagFactor():
            count = size_of(factor) or 0
            return [float(place == category_of(factor, value)) for place in range(count)]
        case OrderFactor():
            return places_of(factor, value)


def _none(factor: Searched) -> list[float]:
    """Of a factor that does not count in a trial."""
    return [0.0] * len(_levels(factor, factor.value))


def _values(factor: Searched) -> Sequence[JsonValue]:
    """All of them, or some from everywhere."""
    if isinstance(factor, NumberFactor | IntegerFactor):
        return [from_unit(factor, place / (SEEN - 1)) for place in range(SEEN)]
    count = size_of(factor) or 0
    places = range(count) if count <= SEEN else Random(0).sample(range(min(count, 2**62)), SEEN)
    return [nth(factor, place) for place in places]


def _chance_to_count(space: Space, name: str) -> float:
    """How much of the space a factor counts in."""
    chances = []
    for other, wanted in (space.factors[name].when or {}).items():
        if other in space.factors:
            texts = {canonical_json(value) for value in wanted}
            values = _values(space.factors[other])
            held = sum(canonical_json(value) in texts for value in values) / len(values)
            chances.append(held * _chance_to_count(space, other))
    return math.prod(chances)


def _ranked(varying: Mapping[str, float], trials: int) -> Importances:
    total = sum(varying.values())
    ranked = sorted(varying.items(), key=lambda item: (-item[1], item[0]))
    factors = tuple(Importance(factor=name, share=share / total if total else 0.0) for name, share in ranked)
    return Importances(factors=factors, trials=trials)
