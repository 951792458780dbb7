"""Episodes that share nothing: against scipy, against brute force, and what too few of them can say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import mannwhitneyu, ttest_ind

from workflows.model.spec.judgement import JudgementSpec
from workflows.rules.decisions.verdicts import smallest_p
from workflows.rules.statistics import compare_unpaired
from workflows.rules.statistics.mann_whitney import mann_whitney, unpaired_moments, welch
from workflows.rules.statistics.mean_test import p_above


def test_without_ties_it_is_scipys_exact_test() -> None:
    random = np.random.default_rng(2)
    one, other = random.random(9), random.random(12) + 0.2
    found = mann_whitney(one, other)
    assert found.gain == pytest.approx(mannwhitneyu(other, one, alternative="greater", method="exact").pvalue)
    assert found.loss == pytest.approx(mannwhitneyu(other, one, alternative="less", method="exact").pvalue)


@settings(deadline=None, max_examples=50)
@given(
    some.lists(some.integers(0, 3), min_size=4, max_size=6),
    some.lists(some.integers(0, 3), min_size=4, max_size=6),
)
def test_with_ties_it_counts_every_way_to_deal_the_ranks(one: list[int], other: list[int]) -> None:
    values = np.array([*one, *other], dtype=float)
    ranks = np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])
    sums = [ranks[list(dealt)].sum() for dealt in itertools.combinations(range(len(values)), len(other))]
    share = np.mean(np.array(sums) >= ranks[len(one) :].sum() - 1e-9)
    assert mann_whitney(np.array(one, float), np.array(other, float)).gain == pytest.approx(float(share))


def test_many_episodes_take_the_tie_corrected_approximation() -> None:
    random = np.random.default_rng(4)
    one, other = random.integers(0, 20, 100).astype(float), random.integers(2, 22, 100).astype(float)
    found = mann_whitney(one, other)
    assert "tie-corrected" in found.method
    assert found.gain == pytest.approx(mannwhitneyu(other, one, alternative="greater", method="asymptotic").pvalue)


def test_episodes_that_are_all_alike_say_nothing() -> None:
    for episodes in (5, 100):
        found = mann_whitney(np.ones(episodes), np.ones(episodes))
        assert (found.gain, found.loss) == (1.0, 1.0)


def test_the_difference_of_means_comes_with_welchs_interval() -> None:
    random = np.random.default_rng(6)
    one, other = random.normal(5, 1, 12), random.normal(6, 3, 30)
    found = welch(one, other, 0.95)
    peer = ttest_ind(other, one, equal_var=False)
    low, high = peer.confidence_interval(0.95)
    assert (found.effect, found.low, found.high) == pytest.approx((other.mean() - one.mean(), low, high))


def test_an_unpaired_candidate_is_not_worse_by_a_margin_as_students_test_has_it_where_that_is_right() -> None:
    random = np.random.default_rng(6)
    one, other = random.normal(5, 1, 200), random.normal(5.1, 1.2, 200)
    shifted = ttest_ind(other + 0.2, one, equal_var=False, alternative="greater")
    assert p_above(unpaired_moments(one, other), -0.2) == pytest.approx(shifted.pvalue, rel=0.15)


def test_fewer_than_four_episodes_are_refused_and_the_smallest_p_is_known_before() -> None:
    spec = JudgementSpec(test="mann_whitney")
    refused = compare_unpaired([1.0, 2.0, 3.0], [7.0, 8.0, 9.0], spec=spec).refused
    assert refused == "3 samples in the smaller group are too few, at least 4 are needed"
    best = compare_unpaired([1.0, 2.0, 3.0, 4.0], [7.0, 8.0, 9.0, 10.0], spec=spec)
    assert best.p_better == pytest.approx(smallest_p("mann_whitney", 4))
    assert smallest_p("mann_whitney", 3) == pytest.approx(0.05)
    assert smallest_p("paired", 5) == pytest.approx(1 / 32)
