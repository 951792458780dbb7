"""CMA-ES, by the `cmaes` package: its generations are replayed from what is stored, so that nothing is carried from batch to
batch."""

from __future__ import annotations

from collections.abc import Sequence

import cmaes
import numpy as np
from numpy.typing import NDArray

from workflows.model.spec.factors import Configuration, IntegerFactor, NumberFactor, OrderFactor
from workflows.rules.search.observations import Told, penalized
from workflows.rules.search.space import Space, from_unit, ordered_by, places_of, unit_of

Place = NDArray[np.float64]

SIGMA = 1 / 6
"""Of the range, at the beginning."""


class EvolutionStrategy:
    """Draws from the generation that is not complete yet."""

    name = "cmaes"

    def __init__(self, space: Space, told: Sequence[Told], seed: int) -> None:
        self._space = space
        self._width = sum(len(one.value) if isinstance(one, OrderFactor) else 1 for one in space.factors.values())
        self._seed = seed % 2**31
        places = [self._place(one.values) for one in told]
        self._strategy = self._replayed(places, penalized(told))

    def draw(self) -> Configuration:
        return self._values(self._strategy.ask())

    def _replayed(self, places: Sequence[Place], losses: Sequence[float]) -> cmaes.CMA:
        """The strategy after everything that was told. Where it has converged, it begins anew at the best place."""
        strategy = self._begun(places[0] if places else np.full(self._width, 0.5))
        generation: list[tuple[Place, float]] = []
        for count, pair in enumerate(zip(places, losses, strict=True), start=1):
            generation.append(pair)
            if len(generation) == strategy.population_size:
                strategy.tell(generation)
                generation = []
                if strategy.should_stop():
                    strategy = self._begun(places[min(range(count), key=lambda place: (losses[place], place))])
        return strategy

    def _begun(self, mean: Place) -> cmaes.CMA:
        """What is replayed does not depend on the seed; only what is drawn from the end of it does."""
        bounds = np.array([[0.0, 1.0]] * self._width)
        return cmaes.CMA(mean=mean, sigma=SIGMA, bounds=bounds, seed=self._seed)

    def _place(self, values: Configuration) -> Place:
        place: list[float] = []
        for name, factor in self._space.factors.items():
            match factor:
                case NumberFactor() | IntegerFactor():
                    place.append(unit_of(factor, float(values[name])))  # type: ignore[arg-type]
                case OrderFactor():
                    place += places_of(factor, values[name])  # type: ignore[arg-type]
                case _:
                    raise ValueError(f"cmaes moves numbers, integers and orders, but {name} is a {factor.type}")
        return np.array(place)

    def _values(self, place: Place) -> Configuration:
        values: Configuration = {}
        left = [float(one) for one in place]
        for name, factor in self._space.factors.items():
            if isinstance(factor, OrderFactor):
                values[name] = ordered_by(factor, left[: len(factor.value)])
                del left[: len(factor.value)]
            elif isinstance(factor, NumberFactor | IntegerFactor):
                values[name] = from_unit(factor, left.pop(0))
        return values
