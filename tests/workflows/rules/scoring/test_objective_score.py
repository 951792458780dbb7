"""From outcomes to one number."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.optimizer import Direction
from tests.support.spec_building import request, sample
from workflows.model.suite import EvaluationSuite, MeasuredSample
from workflows.model.trial import Split
from workflows.rules.scoring.objective_score import (
    ScoringFailed,
    TrialStatistics,
    describe_objective,
    finite,
    gain,
    is_better,
    objective_score,
    weighted_mean,
)
from workflows.rules.scoring.tally import sample_means, statistics


def _suite(objective: Any = "exact", scorers: Any = ({"kind": "exact"},), samples: int = 4) -> EvaluationSuite:
    made = request(objective=objective, scorers=list(scorers))
    return EvaluationSuite(
        run_id="r",
        split=Split.ALL,
        suite_id="s",
        dataset_id="d",
        samples=samples,
        target_fingerprint="t",
        scorer_fingerprint="s",
        target=made.target,
        scorers=made.scorers,
        objective=made.objective,
        metric=made.metric,
    )


def _score(measured: list[MeasuredSample], suite: EvaluationSuite) -> float:
    return objective_score(suite.objective, suite.metric, statistics(measured, suite, len(measured)))


def test_replicates_of_a_sample_are_averaged_before_samples_are() -> None:
    measured = [sample(0, 1.0), sample(0, 0.0, replicate=1), sample(1, 1.0)]
    assert _score(measured, _suite()) == 0.75
    assert _score(measured, _suite({"kind": "success_rate"})) == 0.75


def test_samples_weigh_as_the_dataset_says() -> None:
    measured = [sample(0, 1.0, weight=3.0), sample(1, 0.0)]
    assert _score(measured, _suite()) == 0.75
    assert _score(measured, _suite({"kind": "success_rate"})) == 0.75


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("exact", 0.5),
        ({"metric": "exact", "direction": "minimize"}, 1.0),
        ({"metric": "exact", "worst": -3}, -1.0),
    ],
)
def test_a_failed_sample_counts_as_the_objectives_worst(objective: Any, expected: float) -> None:
    assert _score([sample(0, 1.0), sample(1, None)], _suite(objective)) == expected


def test_a_failed_sample_is_never_a_success_and_never_wins_a_minimization() -> None:
    measured = [sample(0, None, passed=True), sample(1, 0.2)]
    suite = _suite({"metric": "exact", "direction": "minimize"})
    facts = statistics(measured, suite, 2)
    assert (facts.passed, facts.failed) == (0, 2)
    assert objective_score(suite.objective, suite.metric, facts) == pytest.approx(0.6)


def test_success_rate_and_cost_efficiency_follow_the_formulas() -> None:
    measured = [sample(0, 1.0, tokens=300), sample(1, 0.4, tokens=100), sample(2, 0.6, tokens=100)]
    assert _score(measured, _suite({"kind": "success_rate"})) == pytest.approx(2 / 3)
    assert _score(measured, _suite({"kind": "cost_efficiency"})) == 2 * 1000 / 500
    assert _score([sample(0, 1.0, tokens=0)], _suite({"kind": "cost_efficiency"})) == 0.0


def test_a_weighted_objective_is_the_weighted_mean_of_its_components() -> None:
    objective = {
        "kind": "weighted",
        "components": [{"kind": "success_rate", "weight": 0.7}, {"kind": "mean", "metric": "style", "weight": 2.1}],
    }
    suite = _suite(objective, [{"kind": "exact"}, {"kind": "regex", "name": "style"}])
    measured = [sample(0, 1.0, scores={"exact": 1.0, "style": 0.25}), sample(1, 0.0, scores={"exact": 0.0, "style": 0.75})]
    assert _score(measured, suite) == pytest.approx((0.7 * 0.5 + 2.1 * 0.5) / 2.8)


def test_descriptions_are_those_of_the_document() -> None:
    def described(objective: Any) -> str:
        made = request(objective=objective)
        return describe_objective(made.objective, made.metric)

    components = [{"kind": "success_rate", "weight": 0.7}, {"kind": "cost_efficiency", "weight": 0.3}]
    assert described({"kind": "success_rate"}) == "Success rate (higher is better)"
    assert described({"kind": "cost_efficiency"}) == "Cost efficiency: success per 1k tokens"
    assert described({"kind": "weighted", "components": components}) == (
        "70% Success rate (higher is better) + 30% Cost efficiency: success per 1k tokens"
    )
    assert described("exact") == "Mean exact (higher is better)"
    assert described({"metric": "exact", "direction": "minimize"}) == "Mean exact (lower is better)"
    assert described({"kind": "python", "ref": "a:o"}) == "Python: a:o"


def test_a_trial_without_answers_has_no_score() -> None:
    suite = _suite()
    with pytest.raises(ScoringFailed, match="no sample has an answer"):
        objective_score(suite.objective, suite.metric, statistics([], suite, 4))


def test_a_score_that_no_answer_has_is_a_mistake_and_no_zero() -> None:
    suite = _suite("accuracy", [{"kind": "python", "ref": "a:s", "name": "judge"}])
    measured = [sample(0, scores={"precision": 1.0}), sample(1, None)]
    with pytest.raises(ScoringFailed, match="no scorer gave the score 'accuracy'; scores are precision"):
        _score(measured, suite)
    assert list(statistics(measured, suite, 2).metrics) == ["precision"]


def test_only_failed_answers_score_the_worst_and_are_no_scoring_failure() -> None:
    assert _score([sample(0, None), sample(1, None)], _suite()) == 0.0


def test_an_answer_without_the_score_that_others_have_counts_as_worst() -> None:
    assert _score([sample(0, 1.0), sample(1, scores={"other": 1.0}, passed=False)], _suite()) == 0.5


def test_statistics_count_everything_once() -> None:
    measured = [sample(0, 1.0, tokens=7), sample(0, 0.0, replicate=1, tokens=5), sample(2, None, tokens=1)]
    facts = statistics(measured, _suite(), 8)
    assert (facts.samples, facts.outcomes, facts.passed, facts.failed) == (2, 3, 1, 2)
    assert (facts.total_tokens, facts.coverage) == (13, 3 / 8)
    assert facts.total_cost == pytest.approx(0.03)
    assert (facts.avg_latency_ms, facts.avg_ttft_ms) == (100.0, None)
    summary = facts.summary
    assert (summary.total, summary.passed, summary.failed, summary.pass_rate) == (3, 1, 2, 1 / 3)


def test_sample_means_have_a_place_for_every_sample_and_none_for_what_is_missing() -> None:
    measured = [sample(2, 1.0), sample(0, 0.5), sample(2, 0.0, replicate=1), sample(3, None)]
    assert sample_means(measured, _suite()) == [0.5, None, 0.5, 0.0]


@pytest.mark.parametrize(
    "objective",
    [
        "exact",
        {"kind": "success_rate"},
        {"kind": "weighted", "components": [{"kind": "mean", "weight": 3}, {"kind": "success_rate", "metric": "style"}]},
    ],
)
def test_the_objective_is_the_mean_of_the_sample_means_where_it_is_a_mean_at_all(objective: Any) -> None:
    suite = _suite(objective, [{"kind": "exact"}, {"kind": "regex", "pattern": "x", "name": "style"}])
    measured = [
        sample(0, scores={"exact": 0.9, "style": 0.2}, passed=True, weight=2.0),
        sample(0, scores={"exact": 0.3, "style": 0.6}, passed=False, replicate=1, weight=2.0),
        sample(1, scores={"exact": 0.8, "style": 1.0}, passed=True),
        sample(3, None),
    ]
    means = sample_means(measured, suite)
    assert means[2] is None
    by_weight = [(2.0 if place == 0 else 1.0, mean) for place, mean in enumerate(means) if mean is not None]
    assert weighted_mean(by_weight) == pytest.approx(_score(measured, suite))


def test_sample_means_are_scores_where_the_objective_is_no_mean() -> None:
    suite = _suite({"kind": "cost_efficiency"})
    assert sample_means([sample(0, 0.4, passed=True), sample(1, 1.0)], suite) == [0.4, 1.0, None, None]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.floats(0, 1)), min_size=1, max_size=12), st.randoms())
def test_the_order_of_answers_changes_nothing(answers: list[tuple[int, int, float]], random: Any) -> None:
    unique = {(position, replicate): score for position, replicate, score in answers}
    measured = [sample(position, score, replicate=replicate) for (position, replicate), score in unique.items()]
    shuffled = list(measured)
    random.shuffle(shuffled)
    assert statistics(measured, _suite(), 12) == statistics(shuffled, _suite(), 12)
    assert sample_means(measured, _suite()) == sample_means(shuffled, _suite())


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
def test_a_weighted_mean_is_right_and_lies_between_its_values(weighted: list[tuple[float, float]]) -> None:
    exact = sum(Fraction(w) * Fraction(v) for w, v in weighted) / sum(Fraction(w) for w, _ in weighted)
    assert weighted_mean(weighted) == pytest.approx(float(exact), rel=1e-9, abs=1e-6)


def test_round_shares_come_out_round() -> None:
    assert _score([sample(index, float(index < 49)) for index in range(50)], _suite(samples=50)) == 0.98


def test_a_weighted_mean_of_huge_numbers_does_not_overflow() -> None:
    assert weighted_mean([(1.0, 1e308), (1.0, 1e308), (1e308, 1e308), (1e308, 1e308)]) == pytest.approx(1e308)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, True, "1", None, 10**400, 1j, [1]])
def test_what_is_no_finite_number_is_a_scoring_failure(score: object) -> None:
    with pytest.raises(ScoringFailed):
        finite(score)


@pytest.mark.parametrize("score", [0, 1, 0.5, -3, Fraction(1, 4)])
def test_every_finite_number_is_a_score(score: Any) -> None:
    assert finite(score) == float(score)
    assert type(finite(score)) is float


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.sampled_from(list(Direction)))
def test_better_is_strict_and_agrees_with_the_gain(one: float, other: float, direction: Direction) -> None:
    assert not (is_better(one, other, direction) and is_better(other, one, direction))
    assert is_better(one, other, direction) == (gain(one, other, direction) > 0)
    assert not is_better(one, one, direction)


def test_an_unknown_kind_is_a_scoring_failure() -> None:
    facts = TrialStatistics(outcomes=1, metrics=statistics([sample(0)], _suite(), 1).metrics)
    with pytest.raises(ScoringFailed, match="unknown objective kind 'python'"):
        objective_score(request(objective={"kind": "python", "ref": "a:o"}).objective, "exact", facts)
