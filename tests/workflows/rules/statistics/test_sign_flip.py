"""The paired permutation test against closed forms, scipy and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import binomtest, permutation_test

from workflows.rules.statistics.answer_deals import DRAWS
from workflows.rules.statistics.gain_pairs import pair
from workflows.rules.statistics.sign_flip import sign_flip


def test_one_binary_replicate_gives_mcnemars_exact_test() -> None:
    baseline = [1.0] * 20 + [0.0] * 12 + [1.0] * 3
    candidate = [1.0] * 20 + [1.0] * 12 + [0.0] * 3
    found = sign_flip(pair(baseline, candidate))
    assert found.method == "exact sign test (McNemar)"
    assert found.gain == pytest.approx(binomtest(12, 15, alternative="greater").pvalue)
    assert found.loss == pytest.approx(binomtest(12, 15, alternative="less").pvalue)


def test_means_over_replicates_are_computed_exactly_however_many_samples_there_are() -> None:
    random = np.random.default_rng(11)
    baseline, candidate = random.binomial(3, 0.7, 300) / 3, random.binomial(3, 0.75, 300) / 3
    found = sign_flip(pair(baseline, candidate))
    assert found.method == "exact paired permutation test"
    gains = candidate - baseline
    flipped = np.random.default_rng(1).choice([-1, 1], size=(20_000, 300)) @ gains
    assert found.gain == pytest.approx(float((flipped >= gains.sum() - 1e-9).mean()), abs=0.015)


def test_scores_that_lie_on_no_grid_are_enumerated_when_few() -> None:
    baseline = [0.11, 0.52, 0.33, 0.48, 0.91, 0.27]
    candidate = [0.23, 0.59, 0.31, 0.77, 0.93, 0.41]
    peer = permutation_test(
        (np.array(candidate), np.array(baseline)),
        lambda one, other, axis: np.mean(one - other, axis=axis),
        permutation_type="samples",
        alternative="greater",
        vectorized=True,
    )
    assert sign_flip(pair(baseline, candidate)).gain == pytest.approx(peer.pvalue)


def test_weights_count_in_the_statistic() -> None:
    baseline, candidate, weights = [0.0] * 5, [1.0, 1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0, 10.0]
    weighted, even = sign_flip(pair(baseline, candidate, weights)), sign_flip(pair(baseline, candidate))
    assert even.gain == pytest.approx(6 / 32)
    assert weighted.gain == pytest.approx(17 / 32)  # all flips where the heavy one gains, and the one observed


def test_many_scores_off_the_grid_are_sampled_with_a_fixed_seed_and_never_give_zero() -> None:
    random = np.random.default_rng(3)
    baseline = random.random(60)
    candidate = baseline + 0.2 + random.random(60) / 1000
    one, again, other = (sign_flip(pair(baseline, candidate), seed) for seed in (1, 1, 2))
    assert one == again
    assert one.gain == other.gain == pytest.approx(1 / (DRAWS + 1))


def test_no_difference_at_all_proves_nothing() -> None:
    found = sign_flip(pair([1.0] * 50, [1.0] * 50))
    assert (found.gain, found.loss) == (1.0, 1.0)


@given(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3)), min_size=1, max_size=9))
def test_the_exact_distribution_is_that_of_all_sign_flips(counts: list[tuple[int, int]]) -> None:
    baseline, candidate = [one / 3 for one, _ in counts], [other / 3 for _, other in counts]
    gains = [other - one for one, other in counts]
    flips = [sum(sign * gain for sign, gain in zip(signs, gains, strict=True)) for signs in _signs(len(gains))]
    share = sum(flip >= sum(gains) for flip in flips) / len(flips)
    assert sign_flip(pair(baseline, candidate)).gain == pytest.approx(share)


def _signs(samples: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=samples))


@settings(deadline=None, max_examples=40)
@given(
    some.lists(some.floats(0, 1).map(lambda x: round(x, 2)), min_size=5, max_size=30),
    some.randoms(use_true_random=False),
)
def test_turning_the_trials_around_turns_the_p_values_around(scores: list[float], random: object) -> None:
    other = [round(1 - score, 2) for score in scores]
    there, back = sign_flip(pair(scores, other)), sign_flip(pair(other, scores))
    assert there.gain == pytest.approx(back.loss)
    assert there.gain + there.loss >= 1 - 1e-9
