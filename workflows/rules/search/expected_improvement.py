"""Draws where the largest improvement is promised: by a Gaussian process over all that is no mere number, too.

Of many configurations, drawn from everywhere and in steps from the best, the one is tried whose expected improvement over the
best is the largest. Both the model and the draws are made anew from what is stored, so that nothing is carried from batch to
batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from workflows.model.spec.factors import Configuration
from workflows.rules.search.columns import Array
from workflows.rules.search.configuration_rows import Rows
from workflows.rules.search.gaussian_process import Process
from workflows.rules.search.observations import Observation, penalized
from workflows.rules.search.space import Space

Places = NDArray[np.intp]

MODELLED_FROM = 12
"""So many trials are there before a model says more than chance."""

MODELLED = 100
"""So many trials are modelled: half of them the best, half the newest of the others. More cost more and hardly say more."""

EXPLAINED = 60
"""So many of those say how much each factor counts, which costs the most."""

ANYWHERE, NEAR = 80, 160
"""Draws from everywhere, and in steps from the best; half as many steps follow from the most promising of them."""

STARTS = 10
"""Steps begin at one of so many."""

FAR_OUT = -6.0
"""Standard deviations, from which on an improvement is too unlikely to be computed as others are."""


class Promising:
    """Suggests one configuration after the other, and believes of each, for the rest of the batch, what the model expects."""

    name = "process"

    def __init__(self, space: Space, told: Sequence[Observation], seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._rows = Rows(space)
        losses = np.array(penalized(told))
        modelled = _best_and_newest(losses, MODELLED)
        losses = losses[modelled]
        rows = np.stack([self._rows.of(told[place].values) for place in modelled])
        self._seen = {_key(row) for row in rows}
        self._starts = rows[np.argsort(losses, kind="stable")[:STARTS]]
        places = self._rows.apart(rows)
        self._process = Process(places, losses, _best_and_newest(losses, EXPLAINED))
        self._best = float(self._process.expected(places)[0].min())

    def draw(self) -> Configuration:
        rows = np.vstack([self._rows.anywhere(ANYWHERE, self._random), self._near(self._starts, NEAR)])
        promise = self._promise(rows)
        leading = np.argsort(-promise, kind="stable")[:STARTS]
        more = self._near(rows[leading], NEAR // 2)
        rows, promise = np.vstack([rows[leading], more]), np.append(promise[leading], self._promise(more))
        chosen = next((row for row in rows[np.argsort(-promise, kind="stable")] if _key(row) not in self._seen), rows[-1])
        self._seen.add(_key(chosen))
        self._process.believe(self._rows.apart(chosen[None, :]))
        return self._rows.values(chosen)

    def _near(self, starts: Array, count: int) -> Array:
        return self._rows.stepped(starts[self._random.integers(len(starts), size=count)], self._random)

    def _promise(self, rows: Array) -> Array:
        """The logarithm of the expected improvement."""
        expected, deviation = self._process.expected(self._rows.apart(rows))
        return np.log(deviation) + _log_improvement((self._best - expected) / deviation)


def _log_improvement(ahead: Array) -> Array:
    """The logarithm of the expected improvement over 0 of a normal distribution with this mean and a deviation of 1."""
    near, far = np.maximum(ahead, FAR_OUT), np.minimum(ahead, FAR_OUT)
    usual = np.log(np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi) + near * ndtr(near))
    tail = -0.5 * far**2 - 0.5 * np.log(2 * np.pi) - 2 * np.log(-far)
    found: Array = np.where(ahead > FAR_OUT, usual, tail)
    return found


def _key(row: Array) -> bytes:
    """The same for rows that make the same values."""
    found: bytes = (np.round(row, 8) + 0.0).tobytes()  # adding nothing turns -0 into 0
    return found


def _best_and_newest(losses: Array, most: int) -> Places:
    """Half of each, in the order of the trials; all, where these are not more."""
    if len(losses) <= most:
        return np.arange(len(losses))
    best = np.argsort(losses, kind="stable")[: most // 2]
    others = np.setdiff1d(np.arange(len(losses)), best)
    return np.sort(np.append(best, others[-(most - len(best)) :]))
