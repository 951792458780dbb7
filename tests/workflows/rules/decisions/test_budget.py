"""Budgets are counted before anything is dispatched."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.optimizer import StopReason
from workflows.model.run.amounts import Amount, Resource
from workflows.model.run.rounds import Spend
from workflows.model.spec.execution import Budget, BudgetChange
from workflows.rules.decisions.budget import (
    Needs,
    TrialsLeft,
    calls_left,
    confirmation_fits,
    exhausted,
    exhausted_by,
    refuse_baseline,
    used_up,
)

amounts = st.integers(0, 10_000)
prices = amounts.map(lambda cents: cents / 100)
calls = st.integers(1, 500)
spends = st.builds(Spend, samples=amounts, trials=st.integers(0, 50), tokens=amounts, cost=prices)
budgets = st.builds(Budget, samples=amounts, trials=st.integers(0, 50), tokens=amounts, cost=prices)


def affordable_trials(budget: Budget, spend: Spend, needs: Needs, wanted: int) -> int:
    """How many of the wanted trials fit, one after the other."""
    room = TrialsLeft(budget, spend, needs)
    return sum(room.take(needs.calls) for _ in range(wanted))


@given(budgets, spends, calls, st.integers(0, 100))
def test_no_more_trials_are_admitted_than_can_be_paid_for(budget: Budget, spend: Spend, each: int, wanted: int) -> None:
    count = affordable_trials(budget, spend, Needs(each), wanted)
    assert 0 <= count <= wanted
    if count and budget.trials:
        assert spend.trials + count <= budget.trials
    if count and budget.samples:
        assert spend.samples + count * each <= budget.samples
    if count and budget.tokens and spend.trials:
        assert spend.tokens + count * spend.tokens / spend.trials <= budget.tokens * (1 + 1e-6)
    if count and budget.cost and spend.trials:
        assert spend.cost + count * spend.cost / spend.trials <= budget.cost * (1 + 1e-6)


@given(budgets, spends, calls)
def test_a_run_is_exhausted_exactly_when_not_one_trial_fits(budget: Budget, spend: Spend, each: int) -> None:
    decision = exhausted(budget, spend, Needs(each))
    assert (decision is not None) == (affordable_trials(budget, spend, Needs(each), 1) == 0)
    assert decision is None or (decision.should_stop and decision.reason and decision.message)


@given(spends, calls, st.integers(0, 100))
def test_without_budgets_everything_is_affordable(spend: Spend, each: int, wanted: int) -> None:
    assert affordable_trials(Budget(), spend, Needs(each), wanted) == wanted
    assert exhausted(Budget(), spend, Needs(each)) is None


@pytest.mark.parametrize(
    ("budget", "spend", "fits"),
    [
        (Budget(trials=5), Spend(trials=3), 2),
        (Budget(samples=100), Spend(samples=75), 2),
        (Budget(samples=100), Spend(samples=91), 0),
        (Budget(samples=100), Spend(samples=100), 0),
        (Budget(tokens=1000), Spend(tokens=400, trials=2), 3),
        (Budget(tokens=1000), Spend(tokens=999, trials=2), 0),
        (Budget(cost=1.0), Spend(cost=0.25, trials=1), 3),
        (Budget(cost=1.0), Spend(cost=1.5, trials=1), 0),
        (Budget(cost=1.0), Spend(cost=0.0, trials=1), 9),
        (Budget(tokens=1000), Spend(), 9),
        (Budget(cost=5.0), Spend(cost=1e-320, trials=1), 9),
        (Budget(cost=5.0), Spend(cost=5e-324, trials=2), 9),
    ],
)
def test_what_is_left_divided_by_what_a_trial_takes(budget: Budget, spend: Spend, fits: int) -> None:
    assert affordable_trials(budget, spend, Needs(10), 9) == fits


@pytest.mark.parametrize(("budget", "cost", "fits"), [(0.3, 0.1, 2), (0.7, 0.1, 6), (1.1, 0.1, 10), (0.29, 0.1, 1)])
def test_what_floats_lose_in_the_last_digit_takes_no_trial_away(budget: float, cost: float, fits: int) -> None:
    assert affordable_trials(Budget(cost=budget), Spend(cost=cost, trials=1), Needs(10), 99) == fits


@pytest.mark.parametrize(
    ("budget", "spend", "reason", "message"),
    [
        (Budget(trials=2), Spend(trials=2), StopReason.SAMPLE_BUDGET, "Trial budget exhausted: 2 trials"),
        (Budget(samples=15), Spend(samples=10), StopReason.SAMPLE_BUDGET, "Sample budget exhausted: 15 samples"),
        (Budget(tokens=10), Spend(tokens=9, trials=1), StopReason.TOKEN_BUDGET, "Token budget exhausted: 10 tokens"),
        (Budget(cost=1.5), Spend(cost=1, trials=1), StopReason.COST_BUDGET, "Cost budget exhausted: 1.5"),
    ],
)
def test_the_budget_that_is_over_is_named(budget: Budget, spend: Spend, reason: StopReason, message: str) -> None:
    decision = exhausted(budget, spend, Needs(10))
    assert decision is not None
    assert (decision.reason, decision.message) == (reason, message)


def test_a_budget_that_not_even_the_baseline_fits_into_is_refused_with_the_fix() -> None:
    message = refuse_baseline(Budget(samples=10), Needs(100))
    assert message is not None
    assert "budget.samples: is 10, and one trial makes 100 target calls" in message
    assert refuse_baseline(Budget(samples=100), Needs(100)) is None
    assert refuse_baseline(Budget(), Needs(100)) is None


def test_a_budget_that_leaves_nothing_for_the_confirmation_is_refused_with_the_fix() -> None:
    message = refuse_baseline(Budget(samples=119), Needs(100, confirmation_calls=20))
    assert message is not None
    assert "the baseline (100) with the confirmation (20) makes 120 target calls" in message
    assert refuse_baseline(Budget(samples=120), Needs(100, confirmation_calls=20)) is None
    message = refuse_baseline(Budget(trials=2), Needs(100, confirmation_calls=20))
    assert message is not None
    assert "budget.trials: is 2" in message


@pytest.mark.parametrize(
    ("budget", "spend", "fits"),
    [
        (Budget(trials=5), Spend(trials=1), 2),
        (Budget(samples=100), Spend(samples=60), 2),
        (Budget(samples=100), Spend(samples=71), 0),
        (Budget(tokens=1000), Spend(tokens=400, trials=2), 1),
        (Budget(cost=1.0), Spend(cost=0.25, trials=1), 1),
    ],
)
def test_the_search_leaves_the_confirmation_its_share(budget: Budget, spend: Spend, fits: int) -> None:
    assert affordable_trials(budget, spend, Needs(10, confirmation_calls=20), 9) == fits


def test_the_confirmation_fits_into_what_the_search_left() -> None:
    assert confirmation_fits(Budget(samples=30, trials=3), Spend(samples=10, trials=1), 2, calls=20)
    assert not confirmation_fits(Budget(samples=30), Spend(samples=11, trials=1), 2, calls=20)
    assert not confirmation_fits(Budget(trials=3), Spend(trials=2), 2, calls=20)
    assert confirmation_fits(Budget(samples=30, trials=3), Spend(samples=20, trials=2), 1, calls=10)


def test_where_calls_cannot_be_set_aside_one_by_one_a_trial_is_begun_only_if_it_fits_at_its_dearest() -> None:
    needs = Needs(10, at_most=Amount(tokens=5, cost=0.02))
    assert affordable_trials(Budget(cost=0.5), Spend(), needs, 9) == 2
    assert affordable_trials(Budget(tokens=49), Spend(), needs, 9) == 0
    assert affordable_trials(Budget(cost=1.0), Spend(trials=1, cost=0.5), needs, 9) == 1


def test_what_lost_calls_can_have_taken_is_gone_but_no_sign_of_what_a_call_takes() -> None:
    books = (Budget(cost=1.0), Spend(samples=10, trials=1, cost=0.006), Needs(10))
    assert trials_beside(books, lost=0.0) == 165
    assert trials_beside(books, lost=0.496) == 83
    assert trials_beside(books, lost=0.99) == 0
    assert exhausted(*books, lost=Spend(cost=0.99)) is not None
    assert calls_left(*books, lost=Spend(cost=0.496)) == 830
    counted = (Budget(samples=30, tokens=100), Spend(samples=10, trials=1), Needs(10))
    assert exhausted(*counted, lost=Spend(samples=10)) is None
    assert exhausted(*counted, lost=Spend(samples=11)) is not None


def trials_beside(books: tuple[Budget, Spend, Needs], lost: float) -> int:
    room = TrialsLeft(*books, lost=Spend(cost=lost))
    return sum(room.take(10) for _ in range(200))


@given(budgets, spends, calls, st.lists(st.integers(0, 40), max_size=60))
def test_parts_take_what_they_need_and_no_more_than_there_is(budget: Budget, spend: Spend, each: int, parts: list[int]) -> None:
    room = TrialsLeft(budget, spend, Needs(each))
    begun = [part for part in parts if room.take(part)]
    if begun and budget.trials:
        assert spend.trials + len(begun) <= budget.trials
    if sum(begun) and budget.samples:
        assert spend.samples + sum(begun) <= budget.samples
    assert (room.over is None) == (len(begun) == len(parts))


def test_a_part_fits_where_a_whole_trial_does_not_and_one_that_is_answered_already_always_does() -> None:
    room = TrialsLeft(Budget(samples=115), Spend(samples=100, trials=1), Needs(100))
    assert [room.take(calls) for calls in (100, 10, 10, 5, 0, 1)] == [False, True, False, True, True, False]
    assert room.over is not None
    assert room.over.reason is StopReason.SAMPLE_BUDGET


def test_a_run_that_measures_parts_goes_on_as_long_as_the_smallest_fits() -> None:
    spend = Spend(samples=100, trials=1)
    assert exhausted(Budget(samples=115), spend, Needs(100)) is not None
    assert exhausted(Budget(samples=115), spend, Needs(100, smallest_part=10)) is None
    assert exhausted(Budget(samples=109), spend, Needs(100, smallest_part=10)) is not None


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ("samples", StopReason.SAMPLE_BUDGET),
        ("tokens", StopReason.TOKEN_BUDGET),
        ("cost", StopReason.COST_BUDGET),
    ],
)
def test_a_call_that_does_not_fit_ends_the_run_by_its_budget(resource: Resource, reason: StopReason) -> None:
    assert exhausted_by(resource, Budget(samples=7, tokens=7, cost=7)).reason is reason


def test_a_new_budget_below_what_is_used_says_so_with_the_fix() -> None:
    spend, elapsed = Spend(samples=40, trials=2, tokens=900, cost=0.0123), timedelta(minutes=5)
    fine = BudgetChange(cost=1.0, tokens=0, samples=41, trials=3, wall_time=timedelta(hours=1))
    assert used_up(fine, spend, elapsed) == ""
    assert used_up(BudgetChange(cost=0.001, wall_time=timedelta(minutes=1)), spend, elapsed) == (
        "budget.cost is 0.001, and 0.0123 is used already; budget.wall_time is 60 s, and 300 s is used already: "
        "nothing more is begun, and the run ends with what it has. Give more, or 0 for no limit"
    )
