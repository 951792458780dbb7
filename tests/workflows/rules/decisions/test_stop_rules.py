"""Stop rules: when each triggers, what it says, and which wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.optimizer import Direction, StopReason
from workflows.model.run.rounds import Spend
from workflows.model.spec.execution import Budget, Stop
from workflows.rules.decisions.stop_rules import Facts, Limits, decide, describe, rules

OFF = Stop(max_rounds=0, no_improvement=0)


def _facts(**given: Any) -> Facts:
    defaults: dict[str, Any] = {
        "round": 0,
        "best_score": 0.5,
        "improved_round": 0,
        "elapsed": timedelta(0),
        "spend": Spend(),
    }
    return Facts(**{**defaults, **given})


def _limits(stop: Stop = OFF, most: int = 3, **budget: Any) -> Limits:
    return Limits(stop, Budget(**budget), most)


@pytest.mark.parametrize(
    ("limits", "before", "at", "reason", "message"),
    [
        (
            _limits(Stop(max_rounds=19, no_improvement=0)),
            {"round": 18},
            {"round": 19},
            StopReason.MAX_ROUNDS,
            "Reached the limit of 19 rounds",
        ),
        (
            _limits(Stop(max_rounds=0, no_improvement=5)),
            {"round": 6, "improved_round": 2},
            {"round": 7, "improved_round": 2},
            StopReason.NO_IMPROVEMENT,
            "No improvement in last 5 iterations",
        ),
        (
            _limits(Stop(max_rounds=0, no_improvement=0, score=0.95)),
            {"best_score": 0.949999},
            {"best_score": 0.96},
            StopReason.TARGET_REACHED,
            "Score threshold 0.9500 reached with score 0.9600",
        ),
        (
            _limits(wall_time=timedelta(seconds=1.5)),
            {"elapsed": timedelta(seconds=1.499)},
            {"elapsed": timedelta(seconds=1.5)},
            StopReason.TIME_BUDGET,
            "Time budget exhausted: 1500ms",
        ),
        (
            _limits(tokens=1000),
            {"spend": Spend(tokens=999)},
            {"spend": Spend(tokens=1000)},
            StopReason.TOKEN_BUDGET,
            "Token budget exhausted: 1000 tokens",
        ),
        (
            _limits(cost=2.5),
            {"spend": Spend(cost=2.49)},
            {"spend": Spend(cost=2.6)},
            StopReason.COST_BUDGET,
            "Cost budget exhausted: 2.5",
        ),
        (
            _limits(samples=100),
            {"spend": Spend(samples=99)},
            {"spend": Spend(samples=100)},
            StopReason.SAMPLE_BUDGET,
            "Sample budget exhausted: 100 samples",
        ),
        (
            _limits(trials=3),
            {"spend": Spend(trials=2)},
            {"spend": Spend(trials=3)},
            StopReason.SAMPLE_BUDGET,
            "Trial budget exhausted: 3 trials",
        ),
        (
            _limits(),
            {"rounds_without_admission": 2},
            {"rounds_without_admission": 3},
            StopReason.CONVERGENCE,
            "All proposals of 3 rounds in a row were rejected",
        ),
        (
            _limits(most=2),
            {"consecutive_failures": 1},
            {"consecutive_failures": 2},
            StopReason.TOO_MANY_FAILURES,
            "2 trials in a row failed",
        ),
    ],
)
def test_each_rule_triggers_at_its_limit_and_not_before(
    limits: Limits, before: dict[str, Any], at: dict[str, Any], reason: StopReason, message: str
) -> None:
    assert not decide(limits, _facts(**before)).should_stop
    decision = decide(limits, _facts(**at))
    assert (decision.should_stop, decision.reason, decision.message) == (True, reason, message)


@pytest.mark.parametrize("window", [0, -1, -100])
def test_a_window_of_zero_or_less_switches_no_improvement_off(window: int) -> None:
    limits = _limits(Stop(max_rounds=0, no_improvement=window))
    assert not decide(limits, _facts(round=10_000)).should_stop
    assert "improvement" not in describe(limits)


@given(st.integers(1, 40), st.integers(0, 80), st.data())
def test_no_improvement_is_the_formula_of_003(window: int, rounds: int, data: st.DataObject) -> None:
    best = data.draw(st.integers(0, rounds))
    count = rounds + 1  # 003 counts iteration 0
    expected = count > window and count - best - 1 >= window
    limits = _limits(Stop(max_rounds=0, no_improvement=window))
    assert decide(limits, _facts(round=rounds, improved_round=best)).should_stop is expected


def test_a_lower_score_reaches_the_threshold_when_minimizing() -> None:
    limits = _limits(Stop(max_rounds=0, no_improvement=0, score=0.1))
    assert decide(limits, _facts(best_score=0.1, direction=Direction.MINIMIZE)).reason is StopReason.TARGET_REACHED
    assert not decide(limits, _facts(best_score=0.11, direction=Direction.MINIMIZE)).should_stop
    assert not decide(limits, _facts(best_score=None)).should_stop


def test_the_first_rule_in_order_wins() -> None:
    limits = Limits(Stop(max_rounds=1, no_improvement=1, score=0.1), Budget(tokens=1), 1)
    facts = _facts(round=5, spend=Spend(tokens=5), consecutive_failures=1)
    order = [
        StopReason.TOO_MANY_FAILURES,
        StopReason.TARGET_REACHED,
        StopReason.MAX_ROUNDS,
        StopReason.NO_IMPROVEMENT,
        StopReason.TOKEN_BUDGET,
    ]
    assert [rule.reason for rule in rules(limits, facts) if rule.nearness >= 1] == order
    assert decide(limits, facts).reason is order[0]


def test_everything_switched_off_never_stops() -> None:
    facts = _facts(round=10**6, elapsed=timedelta(days=300), spend=Spend(samples=10**9, trials=10**6, tokens=10**12, cost=1e9))
    assert not decide(_limits(), facts).should_stop
    assert describe(_limits()) == "No stop policy"


@given(
    st.builds(
        _facts,
        round=st.integers(0, 100),
        best_score=st.none() | st.floats(-1e6, 1e6),
        elapsed=st.timedeltas(timedelta(0), timedelta(days=3)),
        spend=st.builds(Spend, samples=st.integers(0, 100), tokens=st.integers(0, 10**6), cost=st.floats(0, 10)),
        rounds_without_admission=st.integers(0, 5),
        consecutive_failures=st.integers(0, 5),
        direction=st.sampled_from(list(Direction)),
    ),
    st.none() | st.floats(-1e6, 1e6),
)
def test_nearness_is_a_share_and_1_exactly_when_the_rule_triggers(facts: Facts, score: float | None) -> None:
    limits = _limits(Stop(score=score), cost=5.0, tokens=1000, samples=50, trials=10, wall_time=timedelta(hours=1))
    found = list(rules(limits, facts))
    assert all(0.0 <= rule.nearness <= 1.0 for rule in found)
    assert decide(limits, facts).should_stop == any(rule.nearness == 1.0 for rule in found)


@pytest.mark.parametrize(("best", "threshold"), [(-5.0, 5.0), (0.0, 1.0), (-1.0, 0.0)])
def test_a_score_on_the_other_side_of_zero_is_far_from_its_threshold(best: float, threshold: float) -> None:
    limits = _limits(Stop(max_rounds=0, no_improvement=0, score=threshold))
    [nearness] = [rule.nearness for rule in rules(limits, _facts(best_score=best)) if rule.name == "score"]
    assert nearness == 0.0


def test_descriptions_are_those_of_the_document() -> None:
    assert describe(Limits(Stop(max_rounds=19), Budget())) == "Max 20 iterations OR No improvement for 5 iterations"
    several = Limits(Stop(max_rounds=19), Budget(), several_a_round=True)
    assert describe(several) == "Max 19 rounds OR No improvement for 5 rounds"
    [barren] = [rule for rule in rules(several, _facts(round=5)) if rule.name == "no improvement"]
    assert barren.message == "No improvement in last 5 rounds"
    everything = Limits(
        Stop(max_rounds=9, no_improvement=2, min_delta=0.01, score=0.9),
        Budget(cost=5, tokens=1000, samples=100, trials=7, wall_time=timedelta(hours=2)),
    )
    assert describe(everything) == (
        "Max 10 iterations OR No improvement for 2 iterations (min delta 0.01) OR Time budget: 7200s OR "
        "Token budget: 1000 tokens OR Cost budget: 5 OR Sample budget: 100 samples OR Trial budget: 7 trials OR "
        "Score threshold: 0.9"
    )
