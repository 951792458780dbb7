"""The run's books: standing, counts, spend, and what survives a continue-as-new."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet.optimizer import OptimizerState, StopReason
from tests.support.spec_building import NOW, measured_state, play, proposal, request, result, state
from workflows.model.run.clock import RunClock
from workflows.model.run.contract import CarriedState, Pending, TrialRow
from workflows.model.spec.execution import Adjustment, BudgetChange
from workflows.rules.decisions.deadline import moved_deadline
from workflows.rules.decisions.stop_rules import decide
from workflows.run.carry_over import carried, pick_up, request_in_force
from workflows.run.round_records import last_round, round_record
from workflows.run.state import NEWEST, RunState

scores = st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


def _counted(run: RunState) -> int:
    counts = run.counts
    return counts.rejected + counts.running + counts.completed + counts.failed + counts.stopped


# -- standing -------------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["maximize", "minimize"]), st.lists(scores, max_size=12))
def test_the_best_so_far_only_gets_better_whatever_fails_or_ties(direction: str, played: list[float | None]) -> None:
    run = measured_state(
        0.5, objective={"metric": "exact", "direction": direction}, stop={"max_rounds": 0, "no_improvement": 0}
    )
    play(run, *played)
    so_far = [record.best_so_far for record in run.recent_rounds]
    pick = max if direction == "maximize" else min
    known = [0.5]
    for score, best in zip([0.5, *played], so_far, strict=True):
        known += [] if score is None else [score]
        assert best == pick(known)
    first = [0.5, *played].index(pick(known))
    assert run.best is not None
    assert run.best.round == first  # equal scores keep the earlier


@given(st.lists(scores, min_size=1, max_size=6), st.randoms())
def test_only_the_order_of_proposals_decides(played: list[float | None], random: Any) -> None:
    def outcome(order: list[int]) -> RunState:
        run = measured_state(0.25)
        candidates, _ = run.admit([proposal(0.1 + index / 10) for index in range(len(played))])
        finished = {}
        for index in order:  # whichever finishes first
            score = played[index]
            finished[index] = result(candidates[index], score, "failed" if score is None else "completed")
        run.record_round(candidates, [finished[index] for index in range(len(played))])
        return run

    order = list(range(len(played)))
    random.shuffle(order)
    one, other = outcome(sorted(order)), outcome(order)
    assert (one.best, one.history, one.counts, one.spending.spend) == (
        other.best,
        other.history,
        other.counts,
        other.spending.spend,
    )
    completed = [score for score in played if score is not None]
    if completed and max(completed) > 0.25:
        assert one.best is not None
        assert one.best.candidate_id == one.history[1 + played.index(max(completed))].candidate_id


@pytest.mark.parametrize(
    ("min_delta", "played", "best", "since"),
    [
        (0.0, [0.6, 0.6, 0.5], 0.6, 1),
        (0.1, [0.55, 0.58, 0.59], 0.59, 0),  # better, but not by enough to count
        (0.1, [0.55, 0.6, 0.6], 0.6, 2),  # small gains count once they add up
        (0.1, [0.6, 0.65, 0.7], 0.7, 3),
        (0.1, [0.6, 0.69, 0.6], 0.69, 1),
    ],
)
def test_min_delta_is_measured_from_the_last_improvement_that_counted(
    min_delta: float, played: list[float], best: float, since: int
) -> None:
    run = measured_state(0.5, stop={"min_delta": min_delta})
    play(run, *played)
    assert run.best is not None
    assert (run.best.score, run.best.since_round) == (best, since)
    assert run.facts(NOW).improved_round == since


def test_an_improvement_of_exactly_min_delta_counts_whatever_floats_say() -> None:
    for before, after in ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.1, 0.2)):
        run = measured_state(before, stop={"min_delta": 0.1})
        play(run, after)
        assert run.best is not None
        assert run.best.since_round == 1


def test_the_best_of_a_round_is_its_first_best_and_failed_trials_are_no_best() -> None:
    run = measured_state(0.9)
    candidates, _ = run.admit([proposal(0.1), proposal(0.2), proposal(0.3)])
    results = [result(candidates[0], None, "failed"), result(candidates[1], 0.4), result(candidates[2], 0.4)]
    facts = run.record_round(candidates, results)
    record = round_record(run, candidates, [], facts, NOW)
    assert (record.best_candidate_id, record.best_score) == (candidates[1].candidate_id, 0.4)
    assert (record.best_so_far, record.new_best) == (0.9, False)


def test_a_score_of_a_trial_that_did_not_complete_counts_for_nothing() -> None:
    run = measured_state(0.5)
    [candidate], _ = run.admit([proposal(0.1)])
    [facts] = run.record_round([candidate], [result(candidate, 0.99, "timeout")])
    assert facts.score is None
    assert run.best is not None
    assert run.best.score == 0.5


# -- counts, spend, rounds ------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4, 7.0]), scores), max_size=4), max_size=6))
def test_counts_add_up_after_every_round(rounds: list[list[tuple[float, float | None]]]) -> None:
    run = measured_state()
    paid = 1
    for planned in rounds:
        candidates, rejections = run.admit([proposal(temperature) for temperature, _ in planned])
        assert run.counts.running == len(candidates)
        assert _counted(run) == run.counts.proposed + 1  # the baseline is nobody's proposal
        outcomes = [planned[candidate.index][1] for candidate in candidates]
        results = [result(c, s, "failed" if s is None else "completed") for c, s in zip(candidates, outcomes, strict=True)]
        run.record_round(candidates, results)
        paid += len(candidates)
        assert run.counts.running == 0
        assert _counted(run) == run.counts.proposed + 1
        assert len(candidates) + len(rejections) == len(planned)
    assert len(run.history) == run.spending.spend.trials == paid  # trial count = evaluations really run
    assert run.spending.spend.samples == paid * 10
    assert run.spending.spend.tokens == paid * 100
    assert run.round == len(rounds)


@pytest.mark.parametrize(("status", "count"), [("completed", "completed"), ("failed", "failed"), ("timeout", "stopped")])
def test_every_status_is_counted_in_its_place(status: Any, count: str) -> None:
    run = measured_state()
    [candidate], _ = run.admit([proposal(0.1)])
    before = getattr(run.counts, count)
    run.record_round([candidate], [result(candidate, 0.5, status)])
    assert getattr(run.counts, count) == before + 1


def test_failures_in_a_row_are_counted_in_the_order_of_proposals() -> None:
    run = measured_state()
    play(run, None, None)
    assert run.consecutive_failures == 2
    assert not decide(run.limits, run.facts(NOW)).should_stop
    play(run, 0.1)
    assert run.consecutive_failures == 0
    play(run, None, None, None)
    assert decide(run.limits, run.facts(NOW)).reason is StopReason.TOO_MANY_FAILURES


def test_three_rounds_without_a_candidate_are_convergence() -> None:
    run = measured_state()
    for expected in (1, 2, 3):
        assert not decide(run.limits, run.facts(NOW)).should_stop
        candidates, _ = run.admit([proposal(7.0)])
        run.record_round(candidates, [])
        assert (run.round, run.rounds_without_admission) == (expected, expected)
    assert decide(run.limits, run.facts(NOW)).reason is StopReason.CONVERGENCE
    play(run, 0.4)
    assert run.rounds_without_admission == 0


def test_proposals_are_paid_for_too() -> None:
    run = measured_state()
    run.spending.add_answers(50, 0.5)
    assert (run.spending.spend.tokens, run.spending.spend.cost, run.spending.spend.trials) == (150, 0.6, 1)


def test_results_must_match_candidates() -> None:
    run = measured_state()
    candidates, _ = run.admit([proposal(0.1), proposal(0.2)])
    with pytest.raises(ValueError, match="zip"):
        run.record_round(candidates, [result(candidates[0])])


def test_the_last_round_says_once_why_it_was_the_last() -> None:
    run = measured_state()
    play(run, 0.9)
    last = last_round(run, StopReason.MAX_ROUNDS, "completed")
    assert last is not None
    assert (last.round, last.stopped, last.stop_reason, last.status) == (1, True, StopReason.MAX_ROUNDS, "completed")
    assert last.new_best is False  # its event was sent when the round was decided
    assert [record.stopped for record in run.recent_rounds] == [False, True]
    assert last_round(state(), StopReason.CANCELLED, "cancelled") is None


def test_a_round_record_carries_the_rejections_but_the_book_keeps_them_once() -> None:
    run = measured_state()
    candidates, rejections = run.admit([proposal(7.0)])
    run.record_round(candidates, [])
    record = round_record(run, candidates, rejections, [], NOW)
    assert record.rejections == tuple(rejections) == tuple(run.recent_rejections)
    assert run.recent_rounds[-1] == record.model_copy(update={"rejections": ()})


def test_time_spent_paused_does_not_count() -> None:
    run = state(budget={"wall_time": "1h"})
    run.time.paused_for = timedelta(minutes=10)
    assert run.time.elapsed(NOW + timedelta(minutes=30)) == timedelta(minutes=20)
    assert run.deadline == NOW + timedelta(minutes=70)
    assert state().deadline is None
    assert run.time.elapsed(NOW) == timedelta(0)


def test_the_search_leaves_the_confirmation_the_time_that_it_will_take() -> None:
    run = state(samples=60, budget={"wall_time": "1h"})
    assert run.prepared
    run.time.opened_in = timedelta(minutes=6)
    run.prepared = run.prepared.model_copy(update={"test_samples": 40, "confirms_in_time": True})
    assert run.time_to_confirm == timedelta(minutes=8), "2 x 40 calls, where 60 took six minutes"
    assert (run.deadline, run.end_of_time) == (NOW + timedelta(minutes=52), NOW + timedelta(minutes=60))
    assert not run.is_out_of_time(NOW + timedelta(minutes=51)) and run.is_out_of_time(NOW + timedelta(minutes=52))
    assert decide(run.limits, run.facts(NOW + timedelta(minutes=52))).reason is StopReason.TIME_BUDGET
    assert not decide(run.limits, run.facts(NOW + timedelta(minutes=51))).should_stop
    run.time.opened_in = timedelta(minutes=50)
    assert run.time_to_confirm == timedelta(minutes=30), "but never more than half"
    run.prepared = run.prepared.model_copy(update={"test_samples": 0})
    assert run.deadline == run.end_of_time


def test_time_that_nobody_serves_does_not_count_and_counts_once_within_a_pause() -> None:
    run = state(budget={"wall_time": "1h"})
    assert run.time.unserved is None  # nothing was asked, and nothing will be
    run.time.note_unserved(None)
    run.time.note_unserved(timedelta(hours=8))
    assert run.time.elapsed(NOW + timedelta(hours=8, minutes=20)) == timedelta(minutes=20)
    assert run.deadline == NOW + timedelta(hours=9)
    run.time.note_unserved(timedelta(hours=7))  # a trial that was told earlier ends later
    assert run.deadline == NOW + timedelta(hours=9)
    run.time.resting_since = NOW + timedelta(hours=8, minutes=30)
    run.time.note_unserved(timedelta(hours=10))
    assert run.time.elapsed(NOW + timedelta(hours=99)) == timedelta(minutes=30)
    run.time.end_rest(NOW + timedelta(hours=12))
    run.time.note_unserved(timedelta(hours=11))
    run.time.resting_since = None
    assert run.time.elapsed(NOW + timedelta(hours=12, minutes=10)) == timedelta(minutes=40)
    assert not run.is_out_of_time(NOW + timedelta(hours=12, minutes=29))
    assert run.is_out_of_time(NOW + timedelta(hours=12, minutes=30))


def test_a_deadline_moves_with_what_nobody_served_and_with_the_budget() -> None:
    before = RunClock(unserved=timedelta(hours=1), wall_time=timedelta(hours=2))
    for now, moved in (
        (before, NOW),
        (RunClock(unserved=timedelta(hours=9), wall_time=timedelta(hours=2)), NOW + timedelta(hours=8)),
        (RunClock(unserved=timedelta(hours=1), wall_time=timedelta(hours=3)), NOW + timedelta(hours=1)),
        (RunClock(unserved=timedelta(hours=2), wall_time=timedelta(hours=1)), NOW),
        (RunClock(unserved=timedelta(hours=1), wall_time=None), NOW),
        (RunClock(unserved=timedelta(hours=1), wall_time=timedelta(0)), None),
    ):
        assert moved_deadline(NOW, before, now) == moved


def test_adjusting_changes_what_is_given_and_leaves_the_rest() -> None:
    run = measured_state(stop={"max_rounds": 7, "no_improvement": 3}, budget={"cost": 1, "tokens": 500})
    run.adjust(Adjustment(max_rounds=9, min_delta=0.1, concurrent_trials=2, budget=BudgetChange(cost=0.0)))
    assert (run.limits.stop.max_rounds, run.limits.stop.no_improvement, run.limits.stop.min_delta) == (9, 3, 0.1)
    assert (run.limits.budget.cost, run.limits.budget.tokens) == (0.0, 500)
    assert (run.concurrent_trials, run.concurrent_samples) == (2, 32)
    adjusted = request_in_force(run)
    assert (adjusted.stop, adjusted.budget) == (run.limits.stop, run.limits.budget)
    assert (adjusted.execution.concurrent_trials, adjusted.execution.concurrent_samples) == (2, 32)


# -- from one execution to the next ---------------------------------------------------------------------------------------


def _handed_over(run: RunState) -> RunState:
    """The book of the next execution, by way of JSON, with the history from the store."""
    saved = CarriedState.model_validate_json(carried(run).model_dump_json())
    next_one = RunState(run.run_id, request_in_force(run), NOW + timedelta(hours=9))
    pick_up(next_one, saved)
    rows = [TrialRow.model_validate_json(TrialRow(facts=facts).model_dump_json()) for facts in run.history]
    next_one.remember(rows[:2])
    next_one.remember(rows[2:])
    return next_one


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]), scores), max_size=3), max_size=4),
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.booleans(), scores), max_size=4),
)
def test_a_book_that_was_handed_over_decides_like_the_one_that_was_not(
    before: list[list[tuple[float, float | None]]], after: list[tuple[float, bool, float | None]]
) -> None:
    run = measured_state(0.4, replicates=2, stop={"min_delta": 0.1}, budget={"trials": 9})
    run.status = "running"
    for planned in before:
        _round(run, [(temperature, False, score) for temperature, score in planned])
    other = _handed_over(run)
    assert other.executions == run.executions + 1
    assert _round(other, after) == _round(run, after)
    assert decide(other.limits, other.facts(NOW)) == decide(run.limits, run.facts(NOW))
    kept = "round baseline best last optimizer_state counts consecutive_failures rounds_without_admission history"
    for name in f"{kept} recent_trials recent_rounds recent_rejections limits concurrent_trials".split():
        if name != "last" or after:
            assert name and (getattr(other, name) == getattr(run, name) or (name == "last" and other.last is None)), name
    assert vars(other.time) == vars(run.time)
    assert other.spending.spend == run.spending.spend
    assert other.context() == run.context()
    assert other.known() == run.known()


def _round(run: RunState, planned: list[tuple[float, bool, float | None]]) -> Any:
    candidates, rejections = run.admit([proposal(temperature, resample=again) for temperature, again, _ in planned])
    outcomes = [planned[candidate.index][2] for candidate in candidates]
    results = [result(c, s, "failed" if s is None else "completed") for c, s in zip(candidates, outcomes, strict=True)]
    facts = run.record_round(candidates, results)
    return candidates, rejections, facts, round_record(run, candidates, rejections, facts, NOW)


def test_what_people_asked_for_before_the_handover_is_kept() -> None:
    run = measured_state()
    run.waiting, run.paused, run.stop_requested = [Pending(configuration={"temperature": 0.1})], True, "enough"
    saved = carried(run)
    next_one = RunState(run.run_id, request_in_force(run), NOW)
    pick_up(next_one, saved)
    assert [pending.configuration["temperature"] for pending in next_one.waiting] == [0.1]
    assert (next_one.paused, next_one.stop_requested, next_one.status) == (True, "enough", "running")


def test_the_last_candidate_is_carried_unless_it_is_the_best_that_is_carried_anyway() -> None:
    run = measured_state(0.5)
    play(run, 0.9)
    assert carried(run).last is None
    play(run, 0.1)
    assert carried(run).last == run.last


def _long_run(rounds: int, per_round: int, prompt: str, error: str | None = None) -> RunState:
    run = measured_state(0.1, stop={"max_rounds": 0, "no_improvement": 0}, **_wide())
    for index in range(rounds):
        made = [proposal(prompt=f"{index} {number} {prompt}") for number in range(per_round)]
        candidates, rejections = run.admit([*made, proposal(0.7, prompt="lost the placeholder " + "x" * 80)])
        outcomes = [
            result(c, None if error else 0.2 + (index % 7) / 10, "failed" if error else "completed", error=error)
            for c in candidates
        ]
        facts = run.record_round(candidates, outcomes)
        round_record(run, candidates, rejections, facts, NOW)
    return run


def _wide() -> dict[str, Any]:
    text = {"value": "Answer {{input.q}}", "change": "text", "max_length": 20_000}
    return {"configuration": {**request().model_dump(by_alias=True)["configuration"], "prompt": text}}


@pytest.mark.parametrize(
    ("rounds", "per_round", "error"),
    [(2000, 1, None), (500, 4, None), (20, 100, None), (200, 1, "x" * 2000), (20, 100, "x" * 2000)],
    ids=["one a round", "four a round", "a hundred a round", "long errors", "a hundred long errors a round"],
)
def test_what_is_carried_stays_small_however_long_the_run(rounds: int, per_round: int, error: str | None) -> None:
    run = _long_run(rounds, per_round, "{{input.q}} " + "Consider the ticket carefully. " * 250, error)
    assert len(run.history) == rounds * per_round + 1
    saved = carried(run)
    size = len(saved.model_dump_json().encode())
    assert size < 200 * 1024, f"{size:,} bytes"
    assert saved.recent_trials[-1] == run.recent_trials[-1]
    assert saved.recent_rounds[-1] == run.recent_rounds[-1]
    if error is None and per_round < 100:
        assert len(saved.recent_trials) >= 60


def test_the_book_itself_keeps_the_newest_hundred_of_everything() -> None:
    run = _long_run(150, 1, "{{input.q}}")
    assert (len(run.recent_trials), len(run.recent_rounds), len(run.recent_rejections)) == (NEWEST, NEWEST, NEWEST)
    assert run.recent_rounds[-1].round == 150
    assert run.counts.rejected == 150


def test_admitting_stays_quick_with_thousands_of_candidates() -> None:
    run = _long_run(2000, 1, "{{input.q}}")
    assert len(run.known().candidate_ids) == 2001
    assert run.hash_of(run.history[1].candidate_id) == run.history[1].config_hash


# -- lost rounds ------------------------------------------------------------------------------------------------------------


def test_three_rounds_in_a_row_without_a_proposal_are_the_last_and_one_is_for_refine() -> None:
    assert measured_state().lose_round("the model is away")
    run = measured_state(optimizer={"name": "compress"})
    assert [run.lose_round("away"), run.lose_round("away")] == [False, False]
    run.use_round()
    assert [run.lose_round("away"), run.lose_round("away"), run.lose_round("away")] == [False, False, True]


def test_a_lost_round_says_why_and_is_not_one_whose_proposals_were_all_rejected() -> None:
    run = measured_state(optimizer={"name": "compress"})
    run.optimizer_state = OptimizerState(notes={"selected": "r0"})
    run.lose_round("the model is away")
    run.record_round([], [])
    record = round_record(run, [], [], [], NOW)
    assert (record.round, record.extra) == (1, {"proposal_failure": "the model is away"})
    assert run.rounds_without_admission == 0
    run.use_round()
    run.record_round([], [])
    assert round_record(run, [], [], [], NOW).extra == {"selected": "r0"}
    assert run.rounds_without_admission == 1
