"""A Gaussian process over numbers, choices, flags and orders: what is expected of configurations that were not tried, and how
sure that is.

Likeness falls with the distance between configurations (Matérn, 5/2). How much each factor counts for that distance, and how
much of what was measured is noise, is what explains the losses best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

Array = NDArray[np.float64]

WEIGHT, NOISE = (0.0, 1.5), (np.log(1e-3), 2.0)
"""What is believed beforehand, of the logarithm of a factor's weight and of the noise's part: the mean, and how sure it is."""
LEAST_NOISE, MOST_NOISE = np.log(1e-6), np.log(2.0)
WEIGHTS = (-8.0, 6.0)
LEAST_VARIANCE = 1e-12

STEPS = 15
"""Of the search for the best explanation."""


class Process:
    """What is expected, given the losses of some places. Places are given factor by factor, as columns."""

    def __init__(self, places: Sequence[Array], losses: Array, fit: NDArray[np.intp]) -> None:
        """`fit`: which of them say how much each factor counts."""
        self._centre, self._spread = float(losses.mean()), float(losses.std()) or 1.0
        self._losses = (losses - self._centre) / self._spread
        explained = _explained([columns[fit] for columns in places], self._losses[fit])
        self.weights, self.noise = np.exp(explained[:-1]), float(np.exp(explained[-1]))
        self._places = self._scaled(places)
        self._solve()

    def _scaled(self, places: Sequence[Array]) -> Array:
        return np.hstack([columns * np.sqrt(weight) for columns, weight in zip(places, self.weights, strict=True)])

    def _solve(self) -> None:
        likeness = _likeness(_squared(self._places, self._places))
        likeness[np.diag_indices_from(likeness)] += self.noise
        self._root = cholesky(likeness, lower=True, check_finite=False)
        self._solved = cho_solve((self._root, True), self._losses, check_finite=False)
        self._variance = max(float(self._losses @ self._solved) / len(self._losses), LEAST_VARIANCE)

    def expected(self, places: Sequence[Array]) -> tuple[Array, Array]:
        """The loss, and its standard deviation, without the noise."""
        near = _likeness(_squared(self._scaled(places), self._places))
        half = solve_triangular(self._root, near.T, lower=True, check_finite=False)
        left = np.maximum(1.0 - (half**2).sum(axis=0), LEAST_VARIANCE)
        return near @ self._solved * self._spread + self._centre, np.sqrt(left * self._variance) * self._spread

    def believe(self, place: Sequence[Array]) -> None:
        """As if a place had been measured, and had the loss that is expected of it."""
        expected, _ = self.expected(place)
        variance = self._variance
        self._places = np.vstack([self._places, self._scaled(place)])
        self._losses = np.append(self._losses, (expected - self._centre) / self._spread)
        self._solve()
        self._variance = variance


def _explained(places: Sequence[Array], losses: Array) -> Array:
    """The logarithms of the weights and of the noise that are the likeliest."""
    apart = np.stack([_squared(columns, columns) for columns in places])
    flat = apart.reshape(len(places), -1)
    count, identity = len(losses), np.eye(len(losses))
    means = np.append(np.full(len(places), WEIGHT[0]), NOISE[0])
    widths = np.append(np.full(len(places), WEIGHT[1]), NOISE[1])

    def unlikeliness(logarithms: Array) -> tuple[float, Array]:
        weights, noise = np.exp(logarithms[:-1]), np.exp(logarithms[-1])
        root = np.sqrt(5.0 * (weights @ flat).reshape(count, count))
        falling = np.exp(-root)
        likeness = (1 + root + root**2 / 3) * falling
        lower = cholesky(likeness + noise * identity, lower=True, check_finite=False)
        inverse = cho_solve((lower, True), identity, check_finite=False)
        solved = inverse @ losses
        variance = max(float(losses @ solved) / count, LEAST_VARIANCE)
        told = 0.5 * count * np.log(variance) + float(np.log(np.diag(lower)).sum())
        slope = inverse - np.outer(solved, solved) / variance
        by_weight = weights * (flat @ (slope * (1 + root) * falling).ravel()) * (-5 / 12)
        by_noise = 0.5 * noise * np.trace(slope)
        off = (logarithms - means) / widths
        return told + 0.5 * float(off @ off), np.append(by_weight, by_noise) + off / widths

    bounds = [WEIGHTS] * len(places) + [(LEAST_NOISE, MOST_NOISE)]
    found = minimize(unlikeliness, means, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": STEPS})
    best: Array = found.x
    return best


def _squared(one: Array, other: Array) -> Array:
    """The squares of all distances."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2 * one @ other.T
    found: Array = np.maximum(squares, 0.0)
    return found


def _likeness(squared: Array) -> Array:
    root = np.sqrt(5.0 * squared)
    found: Array = (1 + root + root**2 / 3) * np.exp(-root)
    return found
