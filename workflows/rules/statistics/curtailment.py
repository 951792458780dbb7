"""Boundaries for looking at a trial before it is over.

After m of N samples the mean gain so far differs from the mean over all N only by chance, whatever the candidate is worth: the
difference, divided by σ·√(1/m - 1/N), is standard normal, and over the looks of a trial it is a Brownian bridge that does not
depend on how the trial ends. So one constant z bounds, over all looks together, how often the mean over all samples lies
beyond ±z of where a look expects it, and with that how often a look decides otherwise than the full trial.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

GRID = 160
LOWEST = -7.0


@lru_cache(maxsize=256)
def boundary(looks: int, error_rate: float) -> float:
    """The z that a bridge seen at `looks` evenly spaced moments exceeds, on one given side, with this probability."""
    once, every_time = float(ndtri(1 - error_rate)), float(ndtri(1 - error_rate / max(looks, 1)))
    if looks < 2:
        return once
    from scipy.optimize import brentq  # takes long to import

    return float(brentq(lambda z: crossing_probability(looks, z) - error_rate, once, every_time, xtol=1e-3))


def crossing_probability(looks: int, z: float) -> float:
    """How often the standardized bridge is above z at one of its looks: passed on from look to look, which it can be because
    where it goes next depends on where it is alone."""
    edges = np.linspace(LOWEST, z, GRID + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    staying = np.diff(ndtr(edges))
    for look in range(1, looks):
        now, following = look / (looks + 1), (look + 1) / (looks + 1)
        correlation = float(np.sqrt(now * (1 - following) / (following * (1 - now))))
        spread = float(np.sqrt(1 - correlation**2))
        moved = np.diff(ndtr((edges[None, :] - correlation * centres[:, None]) / spread), axis=1)
        staying = staying @ moved
    return 1 - float(staying.sum())
