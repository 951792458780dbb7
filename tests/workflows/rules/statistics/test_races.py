"""Racing: when a trial stops early, what it says then, and how often it decides otherwise than a full trial."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.stats import norm

from workflows.model.spec.judgement import JudgementSpec, RaceDecision, Racing, Verdict
from workflows.rules.decisions.verdicts import judge
from workflows.rules.statistics import compare, race
from workflows.rules.statistics.curtailment import boundary, crossing_probability

BETTER = JudgementSpec(accept="better", racing=Racing())
NOT_WORSE = JudgementSpec(rule="non_inferiority", accept="not_worse", racing=Racing())


def raced(spec: JudgementSpec, baseline: list[float], candidate: list[float]) -> RaceDecision | None:
    assert spec.racing is not None
    for seen in range(spec.racing.block, len(baseline), spec.racing.block):
        look = race(baseline[:seen], candidate[:seen], planned=len(baseline), spec=spec)
        if not look.go_on:
            return look
    return None


def answers(random: np.random.Generator, rate: float, samples: int = 200) -> list[float]:
    return list(random.binomial(3, rate, samples) / 3)


def test_a_hopeless_candidate_stops_after_the_first_looks_and_says_why() -> None:
    random = np.random.default_rng(1)
    stopped = raced(BETTER, answers(random, 0.9), answers(random, 0.3))
    assert stopped is not None
    assert stopped.reason == "regression"
    assert stopped.samples == 16
    assert stopped.words.startswith("certainly worse after 16 of 200 samples: gain over the baseline so far -0.")
    assert "full evaluation would decide otherwise in at most 2% of trials" in stopped.words


def test_a_clear_win_stops_too_unless_winners_are_wanted_in_full() -> None:
    random = np.random.default_rng(2)
    baseline, candidate = answers(random, 0.3), answers(random, 0.95)
    stopped = raced(BETTER, baseline, candidate)
    assert stopped is not None
    assert stopped.reason == "win"
    in_full = BETTER.model_copy(update={"racing": Racing(wins=False)})
    assert raced(in_full, baseline, candidate) is None


def test_an_equal_candidate_is_futile_where_better_is_asked_and_a_win_where_not_worse_is() -> None:
    for spec, reason in ((BETTER, "futility"), (NOT_WORSE, "win")):
        stopped = raced(spec, [1.0] * 200, [1.0] * 200)
        assert stopped is not None
        assert stopped.reason == reason


def test_the_last_block_is_never_looked_at() -> None:
    assert race([1.0] * 200, [0.0] * 200, planned=200, spec=BETTER).go_on
    assert race([1.0] * 3, [0.0] * 3, planned=200, spec=BETTER).go_on


def test_one_broken_sample_ends_a_trial_under_the_strict_rule() -> None:
    strict = JudgementSpec(rule="strict", accept="shorter", racing=Racing())
    assert race([1.0] * 16, [1.0] * 16, planned=200, spec=strict).go_on
    stopped = race([1.0] * 16, [1.0] * 15 + [0.0], planned=200, spec=strict, strict_broken=1)
    assert stopped.reason == "regression"
    assert "the strict rule tolerates none" in stopped.words


def test_among_many_candidates_a_win_must_be_clearer() -> None:
    random = np.random.default_rng(5)
    baseline, candidate = answers(random, 0.6), answers(random, 0.78)
    alone, among_many = [
        next(
            (seen for seen in range(16, 200, 16) if not _look(baseline, candidate, seen, candidates).go_on),
            200,
        )
        for candidates in (1, 50)
    ]
    assert alone < among_many


def _look(baseline: list[float], candidate: list[float], seen: int, candidates: int) -> RaceDecision:
    return race(baseline[:seen], candidate[:seen], planned=200, spec=BETTER, candidates=candidates)


def test_without_a_second_look_the_boundary_is_the_normal_quantile() -> None:
    assert boundary(1, 0.02) == pytest.approx(norm.ppf(0.98))
    assert crossing_probability(1, 2.0) == pytest.approx(norm.sf(2.0))


def test_the_boundary_holds_its_error_rate_over_all_looks() -> None:
    random, looks, samples = np.random.default_rng(3), 12, 208
    walks = np.cumsum(random.standard_normal((20_000, samples)), axis=1)
    crossed = np.zeros(len(walks), dtype=bool)
    z = boundary(looks, 0.05)
    for seen in range(16, samples, 16):
        bridge = walks[:, seen - 1] / seen - walks[:, -1] / samples
        crossed |= bridge / np.sqrt(1 / seen - 1 / samples) > z
    assert crossed.mean() == pytest.approx(0.05, abs=0.006)


@settings(deadline=None, max_examples=60)
@given(some.integers(0, 2**32), some.floats(0.05, 0.95), some.floats(0.05, 0.95), some.sampled_from([BETTER, NOT_WORSE]))
def test_the_mean_so_far_lies_in_the_interval_of_the_mean_to_come(
    seed: int, one: float, other: float, spec: JudgementSpec
) -> None:
    random = np.random.default_rng(seed)
    look = race(answers(random, one, 32), answers(random, other, 32), planned=100, spec=spec)
    assert look.low <= look.effect <= look.high
    assert look.go_on == (look.reason is None) == (look.words == "")


@pytest.mark.parametrize("spec", [BETTER, NOT_WORSE], ids=["better", "not worse"])
def test_racing_decides_as_full_trials_do_for_a_fraction_of_the_calls(spec: JudgementSpec) -> None:
    random = np.random.default_rng(9)
    same, used, trials = 0, 0, 240
    for place in range(trials):
        rates = random.beta(8, 1.2, 200)
        effect = (-0.3, -0.1, 0.0, 0.05)[place % 4]
        baseline = list(random.binomial(3, rates) / 3)
        candidate = list(random.binomial(3, np.clip(rates + effect, 0, 1)) / 3)
        [full] = judge([compare(baseline, candidate, spec=spec)], spec)
        accepted = full.verdict is Verdict.BETTER or (spec is NOT_WORSE and full.verdict is Verdict.NOT_WORSE)
        stopped = raced(spec, baseline, candidate)
        used += stopped.samples if stopped else 200
        same += stopped is None or (stopped.reason == "win") == accepted
    assert same / trials >= 0.98
    assert used / (200 * trials) <= 0.55
