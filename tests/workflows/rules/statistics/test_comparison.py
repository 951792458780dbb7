"""A candidate against a reference: one piece of evidence, and everything a spec may ask of it."""

from __future__ import annotations

import numpy as np
import pytest

from ratchet.optimizer import Direction
from workflows.model.spec.judgement import JudgementSpec, Verdict
from workflows.model.spec.objective import Objective
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import TrialAnswers, answers_of, compare, evidence_of

IMPROVEMENT = JudgementSpec()


def test_a_clear_gain_is_better_and_says_by_how_much() -> None:
    baseline, candidate = [0.0] * 30 + [1.0] * 30, [1.0] * 20 + [0.0] * 10 + [1.0] * 28 + [0.0] * 2
    evidence = compare(baseline, candidate, spec=IMPROVEMENT, reference_id="r0")
    assert (evidence.better, evidence.worse, evidence.n) == (20, 2, 60)
    assert evidence.effect == pytest.approx(18 / 60)
    assert evidence.low < 18 / 60 < evidence.high
    [judged] = judge([evidence], IMPROVEMENT)
    assert judged.verdict is Verdict.BETTER
    assert judged.explanation.startswith("better than r0: 0.500 -> 0.800, gain +0.300 [")
    assert "on 60 samples (20 better, 2 worse), p = 0.00" in judged.explanation or "p < 0.0001" in judged.explanation


@pytest.mark.parametrize("gains", [[0.05] * 9 + [0.9], [0.3, 0.4, 0.1, 0.2, 0.6, 0.5], [0.02, -0.03, 0.01, 0.9, 0.04, 0.02]])
def test_the_interval_holds_0_just_where_the_test_that_decides_does_not_exclude_it(gains: list[float]) -> None:
    nothing = [0.0] * len(gains)
    up, down = compare(nothing, gains, spec=IMPROVEMENT), compare(gains, nothing, spec=IMPROVEMENT)
    assert (up.low >= 0, up.high > 0) == (up.p_better <= 0.025, True)
    assert (down.high <= 0, down.low < 0) == (down.p_worse <= 0.025, True)


def test_a_gain_is_what_the_direction_says() -> None:
    fast, slow = [float(ms) for ms in range(100, 130)], [float(ms) for ms in range(150, 180)]
    evidence = compare(slow, fast, spec=IMPROVEMENT, direction=Direction.MINIMIZE)
    assert evidence.effect == pytest.approx(50)
    assert evidence.reference_mean > evidence.mean
    assert judge([evidence], IMPROVEMENT)[0].verdict is Verdict.BETTER
    assert judge([compare(slow, fast, spec=IMPROVEMENT)], IMPROVEMENT)[0].verdict is Verdict.WORSE


def test_what_only_one_of_them_answered_is_left_out_and_counted() -> None:
    evidence = compare([1.0, None, 0.0, 0.0, 1.0, 1.0], [1.0, 1.0, None, 1.0, 1.0, 0.0], spec=IMPROVEMENT)
    assert (evidence.n, evidence.missing) == (4, 2)
    assert evidence.effect == 0


def test_fewer_than_four_samples_are_refused() -> None:
    evidence = compare([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], spec=IMPROVEMENT)
    assert evidence.refused == "3 samples answered by both are too few, at least 4 are needed"
    assert (evidence.reference_mean, evidence.mean, evidence.effect) == (0.0, 1.0, 1.0), (
        "what was measured is told all the same"
    )
    [judged] = judge([evidence], IMPROVEMENT)
    assert (judged.verdict, judged.accepted) == (Verdict.INCONCLUSIVE, False)
    assert "nothing can be said" in judged.explanation


def test_trials_of_different_suites_cannot_be_paired() -> None:
    with pytest.raises(ValueError, match="3 and 4 samples"):
        compare([1.0] * 3, [1.0] * 4, spec=IMPROVEMENT)


def test_an_identical_deterministic_prompt_is_not_worse_when_there_are_enough_samples() -> None:
    spec = JudgementSpec(rule="non_inferiority")
    few, many = (judge([compare([1.0] * n, [1.0] * n, spec=spec)], spec)[0] for n in (30, 100))
    assert few.verdict is Verdict.INCONCLUSIVE
    assert many.verdict is Verdict.NOT_WORSE
    assert many.accepted
    assert "margin 0.05, at least -0.0" in many.explanation


def test_without_a_margin_not_worse_asks_what_better_asks() -> None:
    spec = JudgementSpec(rule="non_inferiority", margin=0.0)
    random = np.random.default_rng(0)
    evidence = compare(list(random.random(50)), list(random.random(50) + 0.1), spec=spec)
    assert evidence.p_not_worse == evidence.p_better


def measured(place: int, passed: bool, *, score: float | None = None, cost: float = 0.0, replicate: int = 0) -> MeasuredSample:
    return MeasuredSample(
        position=place,
        weight=1.0,
        replicate=replicate,
        status="answered" if score is not None else "failed",
        scores={} if score is None else {"exact": score, "style": 1 - score},
        passed=passed,
        tokens=10,
        cost=cost,
        latency_ms=100.0,
        ttft_ms=None,
    )


def suite(samples: int) -> EvaluationSuite:
    return EvaluationSuite.model_validate(
        {
            "run_id": "r",
            "split": Split.VALIDATION,
            "suite_id": "s",
            "dataset_id": "d",
            "samples": samples,
            "target_fingerprint": "t",
            "scorer_fingerprint": "s",
            "target": {"kind": "python", "ref": "m:f"},
            "scorers": [{"kind": "exact"}],
            "objective": Objective(metric="exact"),
            "metric": "exact",
            "judgement": {
                "constraints": ["mean cost <= 1", "p95 ttft <= 1", "mean exact >= 0"],
                "objectives": [{"measure": "style", "direction": "maximize"}],
            },
        }
    )


def test_stored_outcomes_become_means_passes_and_measures() -> None:
    answers = answers_of(
        [
            measured(0, True, score=1.0, cost=0.1),
            measured(0, False, score=0.5, cost=0.3, replicate=1),
            measured(2, False, cost=0.2),
        ],
        suite(4),
    )
    assert answers.means == [0.75, None, 0.0, None]
    assert answers.passes == [(1, 2), (0, 0), (0, 1), (0, 0)]
    assert answers.mean_of("cost") == pytest.approx([0.2, None, 0.2, None])
    assert answers.mean_of("style") == pytest.approx([0.25, None, None, None])
    assert list(answers.measures["exact"]) == [(0, 1.0), (0, 0.5), (2, 0.0)]
    assert list(answers.measures["ttft_ms"]) == []
    assert "latency_ms" not in answers.measures, "what nobody asks for is not kept"


def trial(passes: list[tuple[int, int]], cost: float = 1.0) -> TrialAnswers:
    return TrialAnswers(
        means=[passed / answered if answered else None for passed, answered in passes],
        passes=passes,
        measures={"cost": [(place, cost) for place, _ in enumerate(passes)]},
    )


def test_all_that_a_spec_asks_is_in_the_evidence() -> None:
    spec = JudgementSpec.model_validate(
        {
            "rule": "strict",
            "must_pass": ["a", "b"],
            "constraints": ["cost <= 1.5 x baseline", "cost <= 1"],
            "objectives": [{"measure": "cost", "direction": "minimize"}],
        }
    )
    before, after = trial([(3, 3)] * 10), trial([(3, 3)] * 9 + [(2, 3)], cost=1.2)
    evidence = evidence_of(before, after, spec=spec, must_pass={0: "a", 9: "b"})
    assert (evidence.strict_broken, evidence.strict_baseline) == (1, 10)
    assert evidence.strict_false_rejections == 0.0
    assert evidence.must_pass_broken == ("b",)
    assert [check.holds for check in evidence.constraints] == [True, False]
    assert evidence.objectives["cost"].effect == pytest.approx(-0.2)
    [judged] = judge([evidence], spec)
    assert (judged.verdict, judged.accepted) == (Verdict.WORSE, False)
    assert judged.objectives == {"cost": Verdict.WORSE}
    assert "strict rule: 1 of 10 samples no longer pass every replicate" in judged.explanation
    assert "must-pass samples failed: b" in judged.explanation
    assert "mean cost <= 1 is not met: 1.2" in judged.explanation


def test_the_order_of_samples_decides_nothing() -> None:
    random = np.random.default_rng(1)
    baseline, candidate = random.binomial(3, 0.6, 40) / 3, random.binomial(3, 0.7, 40) / 3
    shuffled = random.permutation(40)
    one = compare(list(baseline), list(candidate), spec=IMPROVEMENT)
    other = compare(list(baseline[shuffled]), list(candidate[shuffled]), spec=IMPROVEMENT)
    assert one.p_better == pytest.approx(other.p_better)
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


def test_the_last_digit_told_is_the_same_on_every_processor() -> None:
    """A BLAS adds up in an order of its processor's, so a mean of just 0.4655 was told as 0.465 or as 0.466."""
    heights = [0.456 + n / 1000 for n in range(20)]
    random = np.random.default_rng(1)
    found = []
    for _ in range(50):
        shuffled = [heights[place] for place in random.permutation(20)]
        found.append(compare([0.5] * 20, shuffled, spec=IMPROVEMENT))
    assert {(one.mean, one.reference_mean, one.effect) for one in found} == {(found[0].mean, 0.5, found[0].effect)}
