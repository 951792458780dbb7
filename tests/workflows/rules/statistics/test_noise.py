"""Noise first: variances from replicates, and what a design can find out."""

from __future__ import annotations

import numpy as np
import pytest

from workflows.model.spec.judgement import JudgementSpec, Noise
from workflows.rules.statistics import compare, design, estimate_noise, plan
from workflows.rules.statistics.gain_pairs import pair
from workflows.rules.statistics.mean_test import moments, p_above

COIN = Noise(samples=30, replicates=3, mean=0.8, within=0.16, between=0.02)


def test_the_variances_are_those_of_the_analysis_of_variance() -> None:
    found = estimate_noise([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    assert found.within == pytest.approx(1 / 4)  # 2 of 4 samples vary by ±½ with one degree of freedom each
    assert found.between == pytest.approx(np.var([0.5, 1, 0, 0.5], ddof=1) - 1 / 8)
    assert (found.samples, found.replicates, found.mean, found.noisy_samples) == (4, 2, 0.5, 2)


def test_estimates_come_close_to_the_truth() -> None:
    random = np.random.default_rng(4)
    rates = random.beta(4, 2, 3000)
    found = estimate_noise([list(random.binomial(1, rate, 3).astype(float)) for rate in rates])
    assert found.within == pytest.approx(float((rates * (1 - rates)).mean()), rel=0.05)
    assert found.between == pytest.approx(float(rates.var()), rel=0.15)


def test_nothing_answered_and_one_replicate_say_nothing_of_noise() -> None:
    assert estimate_noise([[], []]).samples == 0
    once = estimate_noise([[1.0], [0.0], [1.0]])
    assert (once.within, once.noisy_samples) == (0.0, 0)


def test_the_planned_power_is_the_power_that_is_had() -> None:
    random, spec = np.random.default_rng(6), JudgementSpec(rule="non_inferiority")
    planned = plan(COIN, samples=150, replicates=2, spec=spec, power=0.8)
    accepted = sum(
        p_above(moments(pair(random.binomial(2, 0.8, 150) / 2, random.binomial(2, 0.8, 150) / 2)), -planned.margin) <= 0.05
        for _ in range(2000)
    )
    assert accepted / 2000 == pytest.approx(0.8, abs=0.03)


def test_the_detectable_gain_is_detected_with_the_planned_power() -> None:
    random, spec = np.random.default_rng(7), JudgementSpec()
    noise = Noise(samples=30, replicates=3, mean=0.6, within=0.24, between=0.0)
    planned = plan(noise, samples=200, replicates=3, spec=spec, power=0.8)
    found = sum(
        compare(
            list(random.binomial(3, 0.6 - planned.detectable / 2, 200) / 3),
            list(random.binomial(3, 0.6 + planned.detectable / 2, 200) / 3),
            spec=spec,
        ).p_better
        <= 0.05
        for _ in range(1000)
    )
    assert found / 1000 == pytest.approx(0.8, abs=0.05)


def test_more_samples_replicates_and_a_better_known_baseline_all_sharpen_and_more_candidates_blunt() -> None:
    spec = JudgementSpec()
    base = plan(COIN, samples=100, replicates=1, spec=spec).detectable
    assert plan(COIN, samples=400, replicates=1, spec=spec).detectable == pytest.approx(base / 2)
    assert plan(COIN, samples=100, replicates=4, spec=spec).detectable == pytest.approx(base / 2)
    well_known = spec.model_copy(update={"baseline_replicates": 100})
    assert plan(COIN, samples=100, replicates=1, spec=well_known).detectable == pytest.approx(base * (1.01 / 2) ** 0.5)
    assert plan(COIN, samples=100, replicates=1, spec=spec, comparisons=20).detectable > base


def test_a_design_takes_samples_first_and_replicates_when_there_are_no_more() -> None:
    spec = JudgementSpec(rule="non_inferiority")
    many = design(COIN, available=5000, spec=spec)
    assert (many.replicates, many.reached) == (1, True)
    assert many.margin <= 0.05
    assert plan(COIN, samples=many.samples - 1, replicates=1, spec=spec).margin > 0.05
    few = design(COIN, available=300, spec=spec)
    assert few.replicates > 1
    assert few.samples <= 300
    out_of_reach = design(COIN, available=20, spec=spec)
    assert not out_of_reach.reached
    assert "take more samples or replicates" in out_of_reach.words


def test_a_budget_bounds_the_calls_of_a_design() -> None:
    found = design(COIN, available=1000, spec=JudgementSpec(margin=0.01), most_calls=600)
    assert found.calls_per_trial <= 600
    assert not found.reached


def test_the_plan_says_what_can_be_found_before_anything_is_spent() -> None:
    words = plan(COIN, samples=200, replicates=3, spec=JudgementSpec(baseline_replicates=5), comparisons=4).words
    assert words.startswith(
        "with 200 samples x 3 replicates (the baseline: 5), at 5% error over 4 candidates, a true gain of 0.0"
    )
