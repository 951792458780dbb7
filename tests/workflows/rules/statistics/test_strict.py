"""The strict rule, what it costs, and must-pass samples."""

from __future__ import annotations

import numpy as np
import pytest

from workflows.model.spec.judgement import MustPass
from workflows.rules.statistics import broken_must_pass, false_rejection_rate, strict_counts


def test_a_sample_is_broken_when_it_was_always_passed_and_is_not_any_more() -> None:
    before = [(3, 3), (3, 3), (2, 3), (3, 3), (0, 0)]
    after = [(3, 3), (2, 3), (0, 3), (0, 0), (3, 3)]
    assert strict_counts(before, after) == (3, 2)


@pytest.mark.parametrize(("rate", "samples", "expected"), [(0.99, 20, 0.44), (0.95, 20, 0.93), (0.90, 20, 0.99)])
def test_its_false_rejections_are_those_that_were_measured_of_document_000(rate: float, samples: int, expected: float) -> None:
    steady = [(round(rate * 1000), 1000)] * samples
    # 1000 replicates tell the rate; the rule itself runs three
    survive = 1 - rate**3 + rate**6
    assert 1 - survive**samples == pytest.approx(expected, abs=0.02)
    assert false_rejection_rate([(passed // 1000 * 3 if rate == 1 else 3, 3) for passed, _ in steady]) == 0.0


def test_the_cost_is_estimated_from_the_replicates_of_the_baseline() -> None:
    random = np.random.default_rng(8)
    rates = random.beta(8, 1.2, 400)
    estimated = [false_rejection_rate([(int(passed), 3) for passed in random.binomial(3, rates[:20])]) for _ in range(40)]
    rejected = 0
    for _ in range(4000):
        drawn = rates[:20]
        before, after = random.binomial(3, drawn) == 3, random.binomial(3, drawn) == 3
        rejected += bool((before & ~after).any())
    assert np.mean(estimated) == pytest.approx(rejected / 4000, abs=0.08)


def test_samples_that_pass_always_or_never_cost_nothing() -> None:
    assert false_rejection_rate([(3, 3)] * 10 + [(0, 3)] * 5) == pytest.approx(0.0, abs=1e-9)
    assert false_rejection_rate([]) == 1.0


def test_without_a_flake_rate_one_failure_is_one_too_many() -> None:
    rule = MustPass(samples=["a", "b"])
    passes = [(3, 3), (2, 3)]
    assert broken_must_pass(passes, passes, {0: "a", 1: "b"}, rule, 0.05) == ["b"]


def test_with_a_flake_rate_failures_are_tolerated_as_far_as_it_explains_them() -> None:
    rule = MustPass(samples=["a", "b"], flake_rate=0.1)
    reference = [(10, 10), (10, 10)]
    assert broken_must_pass(reference, [(8, 10), (9, 10)], {0: "a", 1: "b"}, rule, 0.05) == []
    assert broken_must_pass(reference, [(5, 10), (9, 10)], {0: "a", 1: "b"}, rule, 0.05) == ["a"]


def test_the_flake_rate_can_be_measured_on_the_baseline() -> None:
    rule = MustPass(samples=["a", "b"], flake_rate="measured")
    assert broken_must_pass([(9, 10), (9, 10)], [(9, 10), (9, 10)], {0: "a", 1: "b"}, rule, 0.05) == []
    assert broken_must_pass([(10, 10), (10, 10)], [(9, 10), (10, 10)], {0: "a", 1: "b"}, rule, 0.05) == ["a"]


def test_a_must_pass_sample_without_an_answer_is_not_passed() -> None:
    rule = MustPass(samples=["a"], flake_rate=0.3)
    assert broken_must_pass([(3, 3)], [(0, 0)], {0: "a"}, rule, 0.05) == ["a"]
