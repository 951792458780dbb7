"""A quadratic model of the best region: numbers are drawn where the best trials lie, and of many draws the one that the model
expects most of is tried.

The draws are those of an estimation of distribution: a normal distribution over the best trials. The model is a ridge
regression over the trials that are nearest to it by that distribution's own measure. Both are made anew from what is stored,
so that nothing is carried from batch to batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workflows.model.spec.factors import Configuration
from workflows.rules.search.observations import Observation, penalized
from workflows.rules.search.space import Numeric, Space, from_unit, numeric, unit_of

Array = NDArray[np.float64]

MOST_NUMBERS = 12
"""With more of them, a full quadratic has more coefficients than trials can tell."""
MODELLED_FROM = 3
"""Times its coefficients: so many trials are there before a model is trusted."""
FEWEST_BEST = 8
DRAWS = 30
RIDGE = 1e-3
SPREADS = (0.5, 1.0, 2.0)
"""How far from the best trials is drawn, in their own standard deviations; one of these each time."""


class Quadratic:
    """Moves the numbers of a space that has nothing else."""

    name = "model"

    def __init__(self, space: Space, told: Sequence[Observation], random: np.random.Generator) -> None:
        self._random = random
        losses = penalized(told)
        self._numbers: dict[str, Numeric] = dict(numeric(space))
        self._constant = {name: factor.value for name, factor in space.factors.items() if name not in self._numbers}
        self._places = [self._place(one.values) for one in told]
        self._losses = losses
        self._measured = len(told)

    @property
    def usable(self) -> bool:
        """Whether there is enough to model."""
        count = len(self._numbers)
        return 0 < count <= MOST_NUMBERS and len(self._places) >= MODELLED_FROM * coefficients(count)

    def draw(self) -> Configuration:
        """The draw that is expected to be the best; it is believed, until the next batch, to be as good as that."""
        places, losses = np.array(self._places), np.array(self._losses)
        mean, axes, spread = _region(places[: self._measured], losses[: self._measured])
        scale = self._random.choice(SPREADS)
        steps = self._random.standard_normal((DRAWS, len(mean))) * spread * scale
        drawn = np.clip(mean + steps @ axes.T, 0.0, 1.0)
        expected = _fitted(places, losses, mean, axes / spread)(drawn)
        chosen = int(np.argmin(expected))
        values: Configuration = {
            name: from_unit(number, drawn[chosen][at]) for at, (name, number) in enumerate(self._numbers.items())
        }
        self._places.append(self._place(values))
        self._losses.append(float(max(expected[chosen], losses.min())))
        return {**self._constant, **values}

    def _place(self, values: Configuration) -> list[float]:
        return [unit_of(number, float(values[name])) for name, number in self._numbers.items()]  # type: ignore[arg-type]


def coefficients(numbers: int) -> int:
    """Of a full quadratic."""
    return 1 + numbers + numbers * (numbers + 1) // 2


def _region(places: Array, losses: Array) -> tuple[Array, Array, Array]:
    """Where the best trials lie: their weighted mean, the axes of their spread, and how far they go along each."""
    count = max(coefficients(places.shape[1]), FEWEST_BEST)
    elite = places[np.argsort(losses, kind="stable")[:count]]
    weights = np.log(len(elite) + 0.5) - np.log(np.arange(1, len(elite) + 1))
    weights /= weights.sum()
    mean = weights @ elite
    covariance = (weights[:, None] * (elite - mean)).T @ (elite - mean)
    widest = np.trace(np.cov(elite.T).reshape(len(mean), len(mean))) / len(mean)
    variances, axes = np.linalg.eigh(covariance + (0.05 * widest + 1e-12) * np.eye(len(mean)))
    return mean, axes, np.sqrt(variances)


def _fitted(places: Array, losses: Array, mean: Array, whitening: Array) -> _Expectation:
    """A ridge regression over the trials around the mean, the nearer the weightier."""
    whitened = (places - mean) @ whitening
    distances = (whitened**2).sum(axis=1)
    near = np.argsort(distances, kind="stable")[: 2 * coefficients(places.shape[1])]
    reach = float(np.sqrt(distances[near[-1]])) + 1e-12
    weights = np.exp(-1.5 * distances[near] / reach**2)
    centre, scale = float(losses[near].mean()), float(losses[near].std()) or 1.0
    terms = _terms(whitened[near] / reach)
    ridge = RIDGE * weights.sum() * np.eye(terms.shape[1])
    ridge[0, 0] = 0.0
    weighted = terms * weights[:, None]
    solved = np.linalg.lstsq(weighted.T @ terms + ridge, weighted.T @ ((losses[near] - centre) / scale), rcond=None)[0]
    return _Expectation(mean, whitening / reach, solved, centre, scale)


class _Expectation:
    """What the model expects of draws."""

    def __init__(self, mean: Array, whitening: Array, solved: Array, centre: float, scale: float) -> None:
        self._mean, self._whitening, self._solved = mean, whitening, solved
        self._centre, self._scale = centre, scale

    def __call__(self, drawn: Array) -> Array:
        expected: Array = _terms((drawn - self._mean) @ self._whitening) @ self._solved
        return expected * self._scale + self._centre


def _terms(places: Array) -> Array:
    rows, columns = np.triu_indices(places.shape[1])
    return np.hstack([np.ones((len(places), 1)), places, places[:, rows] * places[:, columns]])
