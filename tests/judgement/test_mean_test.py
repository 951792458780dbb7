"""The test of the mean gain: known answers, where Student's t is right and where it is not, and its error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import ttest_rel

from workflows.rules.judgement.mean_test import Moments, interval, lower_bound, moments, p_above
from workflows.rules.judgement.pairs import pair

SEED = 20_26


def test_with_many_samples_and_an_even_spread_it_is_students_t_test() -> None:
    random = np.random.default_rng(5)
    baseline = random.normal(10, 3, 4000)
    candidate = baseline + random.normal(0.05, 1, 4000)
    found = moments(pair(baseline, candidate))
    peer = ttest_rel(candidate, baseline, alternative="greater")
    assert p_above(found, 0.0) == pytest.approx(peer.pvalue, rel=0.05)
    low, high = ttest_rel(candidate, baseline).confidence_interval(0.95)
    assert interval(found, 0.95) == pytest.approx((low, high), abs=0.002)


def test_a_prompt_that_never_varied_is_known_as_well_as_the_binomial_test_knows_it() -> None:
    for samples in (20, 59, 200, 1000):
        found = moments(pair([1.0] * samples, [1.0] * samples))
        exact = -(1 - 0.05 ** (1 / samples))
        assert exact * 1.03 <= lower_bound(found, 0.95) <= exact + 1e-9


def test_an_even_result_on_few_samples_is_no_proof_that_nothing_is_lost() -> None:
    assert p_above(moments(pair([1.0] * 20, [1.0] * 20)), -0.05) > 0.05
    assert p_above(moments(pair([1.0] * 200, [1.0] * 200)), -0.05) < 0.05


def test_damage_on_few_samples_makes_it_more_careful() -> None:
    gains = np.array([0.0] * 95 + [-1.0] * 5) + 0.04
    found = moments(pair(np.zeros(100), gains), score_range=1.0)
    plain = Moments(found.n, found.mean, found.variance, found.reach)
    assert p_above(found, -0.05) > p_above(plain, -0.05)


def test_a_range_is_1_for_scores_between_0_and_1_and_what_was_seen_otherwise() -> None:
    assert moments(pair([0.2, 0.4], [0.3, 0.4])).reach == 1.0
    assert moments(pair([200.0, 900.0], [300.0, 400.0])).reach == 500.0
    assert moments(pair([200.0, 900.0], [200.0, 900.0])).reach == 700.0
    assert moments(pair([7.0, 7.0], [7.0, 7.0])).reach == 7.0
    assert moments(pair([0.2, 0.4], [0.3, 0.4]), score_range=4.0).reach == 4.0


def test_a_heavy_sample_counts_as_one_sample_of_much_influence() -> None:
    baseline, candidate = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    even = moments(pair(baseline, candidate, [2.0] * 6))
    assert even == moments(pair(baseline, candidate))
    heavy = moments(pair(baseline, candidate, [10.0, 1, 1, 1, 1, 1]))
    assert heavy.n == 6
    assert heavy.mean == pytest.approx(10 / 15)
    squares = (10 * (1 - 2 / 3)) ** 2 + (-1 - 2 / 3) ** 2 + (1 - 2 / 3) ** 2 + 3 * (2 / 3) ** 2
    assert heavy.variance / 6 == pytest.approx(squares * 6 / 5 / 15**2)


@settings(deadline=None, max_examples=60)
@given(some.lists(some.tuples(some.floats(0, 1), some.floats(0, 1)), min_size=4, max_size=40))
def test_the_interval_holds_the_mean_and_stays_within_what_scores_can_do(scores: list[tuple[float, float]]) -> None:
    found = moments(pair([one for one, _ in scores], [other for _, other in scores]))
    low, high = interval(found, 0.95)
    assert -1 - 1e-9 <= low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= high <= 1 + 1e-9
    narrow = interval(found, 0.8)
    assert low - 1e-9 <= narrow.low
    assert narrow.high <= high + 1e-9


@settings(deadline=None, max_examples=60)
@given(some.lists(some.tuples(some.floats(0, 1), some.floats(0, 1)), min_size=4, max_size=40), some.floats(0.001, 0.5))
def test_the_bound_is_where_the_p_value_reaches_alpha(scores: list[tuple[float, float]], margin: float) -> None:
    found = moments(pair([one for one, _ in scores], [other for _, other in scores]))
    bound = lower_bound(found, 0.95)
    if math.isclose(bound, -margin, abs_tol=1e-6):
        return
    assert (p_above(found, -margin) <= 0.05) == (bound >= -margin)


@pytest.mark.parametrize(("samples", "replicates"), [(20, 1), (60, 3), (200, 3)])
@pytest.mark.parametrize("world", ["beta", "steady", "coin"])
@pytest.mark.parametrize("damage", ["spread", "few samples"])
def test_a_loss_of_the_margin_is_called_not_worse_in_at_most_5_percent(
    samples: int, replicates: int, world: str, damage: str
) -> None:
    random = np.random.default_rng([SEED, samples, replicates])
    decisions, accepted = 1500, 0
    for _ in range(decisions):
        rates = {
            "beta": random.beta(8, 1.2, samples),
            "steady": np.full(samples, 0.97),
            "coin": np.full(samples, 0.5),
        }[world]
        share = 0.05 / float(rates.mean())
        worse = rates * (1 - share) if damage == "spread" else np.where(random.random(samples) < share, 0.0, rates)
        found = pair(random.binomial(replicates, rates) / replicates, random.binomial(replicates, worse) / replicates)
        accepted += p_above(moments(found), -0.05) <= 0.05
    assert accepted / decisions <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / decisions)


@pytest.mark.parametrize("effect", [0.0, -0.1, 0.08])
def test_19_of_20_intervals_hold_the_truth(effect: float) -> None:
    random = np.random.default_rng(SEED)
    decisions, held = 1500, 0
    for _ in range(decisions):
        rates = random.beta(8, 3, 80)
        changed = np.clip(rates + effect, 0, 1)
        found = moments(pair(random.binomial(2, rates) / 2, random.binomial(2, changed) / 2))
        low, high = interval(found, 0.95)
        held += low <= float((changed - rates).mean()) <= high
    assert 0.94 <= held / decisions <= 0.985


@pytest.mark.parametrize(
    ("samples", "replicates", "rate", "margin"),
    [(20, 5, 0.95, 0.02), (30, 5, 0.95, 0.02), (50, 1, 0.98, 0.02), (50, 5, 0.98, 0.02)],
)
def test_where_failures_are_rare_few_of_them_prove_no_candidate_harmless(
    samples: int, replicates: int, rate: float, margin: float
) -> None:
    """Student's variance, and the least that a loss of the margin can have, accepted 9 to 14 % of these."""
    random = np.random.default_rng(SEED)
    accepted = 0
    for _ in range(1500):
        broken = random.random(samples) < margin / rate
        baseline = random.binomial(replicates, rate, samples) / replicates
        candidate = np.where(broken, 0.0, random.random(samples) < rate)
        accepted += p_above(moments(pair(baseline, candidate)), -margin) <= 0.05
    assert accepted / 1500 <= 0.06
