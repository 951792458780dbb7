"""Simulated prompts with known quality: what a verdict says can be held against the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def pass_probabilities(random: np.random.Generator, samples: int) -> Array:
    """Of a good prompt: most samples pass nearly always, some now and then."""
    return random.beta(8, 1.2, samples)


def changed(pass_rates: Array, effect: float) -> Array:
    """The same for a prompt that is worse, or better, by exactly `effect` on the mean; all samples share in it."""
    rates = pass_rates + effect
    for _ in range(20):
        rates = np.clip(rates, 0.0, 1.0)
        rates = rates + (pass_rates.mean() + effect - rates.mean())
    return np.clip(rates, 0.0, 1.0)


def broken(random: np.random.Generator, pass_rates: Array, share: float) -> Array:
    """The same for a prompt that fails some samples always: damage on few samples."""
    return np.where(random.random(len(pass_rates)) < share, 0.0, pass_rates)


def passes(random: np.random.Generator, pass_rates: Array, replicates: int) -> NDArray[np.int64]:
    """How often each sample passed."""
    return random.binomial(replicates, pass_rates)
