"""From evidence to verdicts: Holm's correction, the rules, the Pareto front."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from workflows.model.spec.judgement import ConstraintCheck, Evidence, JudgementSpec, Verdict
from workflows.rules.decisions.verdicts import holm, judge, pareto_front

P_VALUES = some.lists(some.floats(0, 1), min_size=1, max_size=12)


def evidence(**parts: object) -> Evidence:
    return Evidence.model_validate({"reference": "r0", "method": "a test", "n": 100} | parts)


def test_holms_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(P_VALUES)
def test_holm_is_monotone_and_lies_between_the_raw_values_and_bonferronis(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for raw, corrected in zip(p_values, adjusted, strict=True):
        assert raw <= corrected <= min(1.0, len(p_values) * raw) + 1e-12 or corrected >= raw
    by_raw = [corrected for _, corrected in sorted(zip(p_values, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)
    assert min(adjusted) == pytest.approx(min(1.0, len(p_values) * min(p_values)))


@given(P_VALUES, some.floats(0.01, 0.4))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float], alpha: float) -> None:
    rejected = 0
    for rank, p in enumerate(sorted(p_values)):
        if (len(p_values) - rank) * p > alpha:
            break
        rejected += 1
    assert sum(p <= alpha for p in holm(p_values)) == rejected


def test_twenty_identical_candidates_are_called_better_no_more_often_than_one() -> None:
    random, spec = np.random.default_rng(7), JudgementSpec()
    decisions = 2000
    claimed = 0
    for p_values in random.random((decisions, 20)):
        judged = judge([evidence(p_better=float(p)) for p in p_values], spec)
        claimed += any(one.verdict is Verdict.BETTER for one in judged)
    assert claimed / decisions <= 0.065


@pytest.mark.parametrize(
    ("found", "verdict", "p"),
    [
        ({"p_better": 0.01, "p_not_worse": 0.001, "p_worse": 0.99}, Verdict.BETTER, 0.01),
        ({"p_better": 0.40, "p_not_worse": 0.010, "p_worse": 0.60}, Verdict.NOT_WORSE, 0.01),
        ({"p_better": 0.99, "p_not_worse": 0.900, "p_worse": 0.02}, Verdict.WORSE, 0.02),
        ({"p_better": 0.40, "p_not_worse": 0.300, "p_worse": 0.60}, Verdict.INCONCLUSIVE, 0.40),
    ],
)
def test_each_verdict_has_its_evidence_and_its_own_p_value(found: dict[str, float], verdict: Verdict, p: float) -> None:
    accepted = {rule: judge([evidence(**found)], JudgementSpec(rule=rule))[0] for rule in ("improvement", "non_inferiority")}
    assert {judged.verdict for judged in accepted.values()} == {verdict}
    assert accepted["improvement"].adjusted_p == p
    assert f"p = {p:.2g}" in accepted["improvement"].explanation
    assert accepted["improvement"].accepted == (verdict is Verdict.BETTER)
    assert accepted["non_inferiority"].accepted == (verdict in (Verdict.BETTER, Verdict.NOT_WORSE))


def test_among_several_candidates_the_same_evidence_may_no_longer_do() -> None:
    spec, close = JudgementSpec(), evidence(p_better=0.03)
    alone, together = judge([close], spec), judge([close, evidence(p_better=0.5)], spec)
    assert (alone[0].verdict, together[0].verdict) == (Verdict.BETTER, Verdict.INCONCLUSIVE)
    assert together[0].adjusted_p == pytest.approx(0.06)
    assert "corrected for 2 candidates" in together[0].explanation


def test_a_broken_constraint_or_must_pass_sample_keeps_a_better_candidate_out() -> None:
    spec, good = JudgementSpec(), {"p_better": 0.0001}
    slow = ConstraintCheck(constraint="p95 latency_ms <= 800", value=900.0, limit=800.0, holds=False)
    for broken in (evidence(**good, constraints=(slow,)), evidence(**good, must_pass_broken=("vip",))):
        [judged] = judge([broken], spec)
        assert (judged.verdict, judged.accepted) == (Verdict.BETTER, False)
    assert judge([evidence(**good)], spec)[0].accepted


def test_the_strict_rule_accepts_nothing_against_a_baseline_that_passes_nothing() -> None:
    spec = JudgementSpec(rule="strict")
    assert judge([evidence(strict_broken=0, strict_baseline=12)], spec)[0].accepted
    [empty] = judge([evidence(strict_broken=0, strict_baseline=0)], spec)
    assert not empty.accepted
    assert "so it accepts nothing" in empty.explanation


def test_the_front_keeps_what_no_other_candidate_beats() -> None:
    gains = {"base": (0.0, 0.0), "good": (0.2, 0.0), "cheap": (-0.1, 0.5), "bad": (-0.2, 0.4), "twin": (0.2, 0.0)}
    assert pareto_front(gains) == ["good", "cheap", "twin"]


@given(some.dictionaries(some.text(max_size=3), some.tuples(some.integers(0, 4), some.integers(0, 4)), min_size=1, max_size=9))
def test_everything_off_the_front_is_beaten_by_something_on_it(gains: dict[str, tuple[int, int]]) -> None:
    front = pareto_front(gains)
    assert front
    for name in gains.keys() - set(front):
        assert any(all(a >= b for a, b in zip(gains[best], gains[name], strict=True)) for best in front)
