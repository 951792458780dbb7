"""The distributions that judgement asks, from scipy's special functions: `scipy.stats` has them too, but takes a third of a
second to import, which every worker would wait for.
"""

from __future__ import annotations

import math

from scipy.special import bdtr, bdtrc, stdtr, stdtrit


def binomial_at_least(wanted: int, n: int, share: float) -> float:
    """The chance of so many or more of n."""
    return 1.0 if wanted <= 0 else float(bdtrc(wanted - 1, n, share))


def binomial_at_most(wanted: int, n: int, share: float) -> float:
    """The chance of so many or fewer of n."""
    return 0.0 if wanted < 0 else float(bdtr(min(wanted, n), n, share))


def hypergeometric_at_least(wanted: int, marked: int, n: int, drawn: int) -> float:
    """The chance of so many or more marked ones among those drawn."""
    ways = sum(math.comb(marked, k) * math.comb(n - marked, drawn - k) for k in range(max(wanted, 0), min(marked, drawn) + 1))
    return min(1.0, ways / math.comb(n, drawn))


def binomial_quantile(chance: float, n: int, share: float) -> int:
    """The smallest number with at least this chance of not being exceeded, but for the last digits."""
    wanted, low, high = chance * (1 - 1e-12), 0, n
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_at_most(middle, n, share) >= wanted else (middle + 1, high)
    return low


def student_quantile(chance: float, freedom: float) -> float:
    """What Student's t stays below with this chance."""
    return float(stdtrit(freedom, chance))


def student_above(value: float, freedom: float) -> float:
    """The chance of Student's t to be above a value."""
    return float(stdtr(freedom, -value))
