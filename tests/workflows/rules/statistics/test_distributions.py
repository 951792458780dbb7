"""What judgement asks of distributions is what `scipy.stats` says of them, at the ends as well."""

from __future__ import annotations

import pytest
from scipy import stats

from workflows.rules.statistics import distributions


@pytest.mark.parametrize("share", [0.01, 0.5, 0.93, 1.0])
@pytest.mark.parametrize("n", [1, 7, 400])
def test_binomial_chances_and_quantiles_are_those_of_scipy(n: int, share: float) -> None:
    for wanted in (-1, 0, 1, n // 2, n - 1, n, n + 1):
        assert distributions.binomial_at_least(wanted, n, share) == pytest.approx(
            stats.binom.sf(wanted - 1, n, share), abs=1e-12
        )
        assert distributions.binomial_at_most(wanted, n, share) == pytest.approx(stats.binom.cdf(wanted, n, share), abs=1e-12)
    for chance in (0.025, 0.3, 0.5, 0.975):
        assert distributions.binomial_quantile(chance, n, share) == int(stats.binom.ppf(chance, n, share))


@pytest.mark.parametrize("freedom", [1, 3.7, 200])
def test_student_chances_and_quantiles_are_those_of_scipy(freedom: float) -> None:
    for chance in (0.025, 0.5, 0.975):
        assert distributions.student_quantile(chance, freedom) == pytest.approx(stats.t.ppf(chance, freedom), abs=1e-9)
    for value in (-2.5, 0.0, 0.7, 30.0):
        assert distributions.student_above(value, freedom) == pytest.approx(stats.t.sf(value, freedom), rel=1e-9)
