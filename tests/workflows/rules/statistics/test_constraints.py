"""Limits that every candidate must keep: how they are written, and when they hold."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import binom

from workflows.model.spec.judgement import Constraint, JudgementSpec
from workflows.rules.statistics import TrialAnswers, check_constraints


def trial(**measures: list[float]) -> TrialAnswers:
    samples = max(len(values) for values in measures.values())
    return TrialAnswers(means=[1.0] * samples, measures={name: list(enumerate(values)) for name, values in measures.items()})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cost <= 0.002", {"measure": "cost", "statistic": "mean", "at_most": 0.002}),
        ("p95 latency <= 800", {"measure": "latency_ms", "statistic": "p95", "at_most": 800.0}),
        ("total tokens <= 1_000", {"measure": "tokens", "statistic": "total", "at_most": 1000.0}),
        ("politeness>=0.9", {"measure": "politeness", "statistic": "mean", "at_least": 0.9}),
        ("cost <= 1.1 x baseline", {"measure": "cost", "statistic": "mean", "at_most": 1.1, "of_baseline": True}),
    ],
)
def test_a_constraint_is_written_as_it_is_read(written: str, meant: dict[str, object]) -> None:
    parsed = Constraint.model_validate(written)
    assert parsed.model_dump(exclude_defaults=True) | {"statistic": parsed.statistic} == meant
    assert Constraint.model_validate(parsed.words) == parsed


@pytest.mark.parametrize("written", ["cost < 3", "latency", "p950 cost <= 1", "cost <= much", {"measure": "cost"}])
def test_what_is_no_constraint_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValidationError, match=r"write for example|at_most or at_least"):
        Constraint.model_validate(written)


def test_a_percentile_is_an_answer_and_its_interval_comes_from_the_order_of_the_answers() -> None:
    answers = trial(latency_ms=[float(ms) for ms in range(1, 201)])
    [check] = check_constraints([Constraint.model_validate("p95 latency <= 195")], answers, answers)
    assert check.value == 190
    assert check.holds
    assert not check.certain
    assert check.low is not None and check.high is not None
    covered = binom.cdf(int(check.high) - 1, 200, 0.95) - binom.cdf(int(check.low) - 1, 200, 0.95)
    assert covered >= 0.95
    [sure] = check_constraints([Constraint.model_validate("p95 latency <= 200")], answers, answers)
    assert sure.certain


def test_a_limit_may_be_a_multiple_of_the_baselines_own_value() -> None:
    before, after = trial(cost=[2.0] * 10), trial(cost=[2.1] * 10)
    checks = [Constraint.model_validate(text) for text in ("cost <= 1.1 x baseline", "cost <= 1.04 x baseline")]
    assert [(check.holds, check.certain) for check in check_constraints(checks, before, after)] == [(True, True), (False, True)]


def test_replicates_of_a_sample_are_one_observation_of_a_mean() -> None:
    random = np.random.default_rng(0)
    values = random.random(20)
    once = TrialAnswers([1.0] * 20, measures={"cost": list(enumerate(values))})
    often = TrialAnswers(
        [1.0] * 20, measures={"cost": [(place, value) for place, value in enumerate(values) for _ in range(50)]}
    )
    [one] = check_constraints([Constraint.model_validate("cost <= 1")], once, once)
    [other] = check_constraints([Constraint.model_validate("cost <= 1")], often, often)
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_what_was_not_measured_does_not_hold() -> None:
    [check] = check_constraints([Constraint.model_validate("ttft <= 5")], trial(cost=[1.0]), trial(cost=[1.0]))
    assert (check.value, check.holds) == (None, False)


def test_a_spec_takes_short_forms() -> None:
    spec = JudgementSpec.model_validate({"racing": True, "noise": False, "must_pass": ["s1"], "constraints": ["cost <= 1"]})
    assert spec.racing is not None
    assert spec.racing.block == 16
    assert spec.noise is None
    assert spec.must_pass is not None
    assert spec.must_pass.samples == ["s1"]
    assert JudgementSpec.model_validate(spec.model_dump()) == spec
