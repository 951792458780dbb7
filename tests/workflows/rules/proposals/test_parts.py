"""Parts: candidates that are measured on some samples only, to learn from them."""

from __future__ import annotations

from ratchet._formats.canonical import content_hash
from ratchet.optimizer import Part, StopReason
from tests.support.spec_building import NOW, measured_state, proposal, result
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.execution import Adjustment, BudgetChange
from workflows.run.round_records import round_record, step_record
from workflows.run.state import MOST_STEPS, RunState

FOUR = Part(first=0, count=4)


def _with_a_candidate(temperature: float) -> tuple[RunState, str]:
    run = measured_state()
    [candidate], _ = run.admit([proposal(temperature)])
    run.record_round([candidate], [result(candidate, 0.9)])
    return run, candidate.candidate_id


def test_a_part_of_a_known_configuration_keeps_its_candidate_and_its_counts() -> None:
    run, parent = _with_a_candidate(0.1)
    counts = run.counts
    asked = proposal(0.1, parent_candidate_ids=(parent,), part=Part(split="train"))
    [measured], rejections = run.admit([asked])
    assert rejections == []
    assert (measured.candidate_id, measured.config_hash) == (parent, content_hash(asked.configuration))
    assert (measured.first_replicate, measured.part) == (0, Part(split="search", first=0, count=10))  # no train split
    assert run.counts == counts


def test_a_known_configuration_is_found_without_being_named() -> None:
    run, known = _with_a_candidate(0.1)
    [measured], _ = run.admit([proposal(0.1, part=FOUR)])
    assert measured.candidate_id == known


def test_a_part_of_a_new_configuration_makes_a_candidate_with_a_lineage() -> None:
    run, parent = _with_a_candidate(0.1)
    [measured], _ = run.admit([proposal(0.9, parent_candidate_ids=(parent,), part=FOUR)])
    assert measured.candidate_id.startswith("r2-")
    assert (measured.round, measured.parent_candidate_ids) == (2, (parent,))
    [child], _ = run.admit([proposal(0.8, parent_candidate_ids=(measured.candidate_id,), part=FOUR)])
    assert child.parent_candidate_ids == (measured.candidate_id,)


def test_a_part_is_paid_for_and_decides_nothing() -> None:
    run, parent = _with_a_candidate(0.1)
    best, history, trials = run.best, list(run.history), run.spending.spend.trials
    measured, _ = run.admit([proposal(0.1, parent_candidate_ids=(parent,), part=FOUR)])
    assert not run.ends_round(measured)
    [facts] = run.record_parts(measured, [result(measured[0], 0.99)])
    assert (facts.candidate_id, facts.split, facts.part, facts.score) == (parent, "all", FOUR, 0.99)
    assert (run.best, run.history, run.round) == (best, history, 1)
    assert run.spending.spend.trials == trials + 1


def test_what_was_measured_in_part_is_proposed_in_full_under_its_own_name_and_origin() -> None:
    run, parent = _with_a_candidate(0.1)
    [part], _ = run.admit([proposal(0.9, parent_candidate_ids=(parent,), part=FOUR)])
    run.record_parts([part], [result(part, samples=4)])
    [other], _ = run.admit([proposal(0.3)])
    run.record_round([other], [result(other)])
    [whole], rejections = run.admit([proposal(0.9, parent_candidate_ids=(part.candidate_id,))])
    assert rejections == []
    assert (whole.candidate_id, whole.part, whole.first_replicate) == (part.candidate_id, None, 0)
    assert (whole.round, whole.parent_candidate_ids) == (3, (parent,))
    run.record_round([whole], [result(whole)])
    _, [again] = run.admit([proposal(0.9)])
    assert again.reason_code is ReasonCode.DUPLICATE


def test_a_resample_of_what_was_measured_in_part_has_fresh_answers() -> None:
    run = measured_state(replicates=2)
    [part], _ = run.admit([proposal(0.9, part=FOUR)])
    same, _ = run.admit([proposal(0.9, resample=True), proposal(0.9, resample=True)])
    assert [candidate.first_replicate for candidate in same] == [1, 3]
    assert len({part.candidate_id, *(candidate.candidate_id for candidate in same)}) == 3


def test_only_what_a_part_did_not_answer_is_asked_of_the_budget() -> None:
    run = measured_state(budget={"samples": 20})
    [part], _ = run.admit([proposal(0.9, part=FOUR)])
    run.record_parts([part], [result(part, samples=4)])
    _, [refused] = run.admit([proposal(0.3)])
    assert refused.reason_code is ReasonCode.BUDGET
    [whole], _ = run.admit([proposal(0.9)])
    assert whole.candidate_id == part.candidate_id


def test_a_step_that_the_budget_refuses_as_a_whole_says_which_budget() -> None:
    run = measured_state(budget={"samples": 20})
    [part], _ = run.admit([proposal(0.9, part=FOUR)])
    run.record_parts([part], [result(part, samples=4)])
    assert run.spending.over is None
    run.admit([proposal(0.3), proposal(0.4, part=Part(count=7))])
    assert run.spending.over is not None
    assert run.spending.over.reason is StopReason.SAMPLE_BUDGET
    run.adjust(Adjustment(budget=BudgetChange(samples=40)))
    assert run.spending.over is None


def test_a_part_that_begins_after_the_last_sample_is_refused_and_a_longer_one_is_cut() -> None:
    run = measured_state()
    [cut], [refused] = run.admit([proposal(0.2, part=Part(first=8, count=5)), proposal(0.3, part=Part(first=10))])
    assert cut.part == Part(first=8, count=2)
    assert (refused.reason_code, refused.message) == (
        ReasonCode.OUT_OF_RANGE,
        "part.first is 10, but there are 10 samples to measure on the search split",
    )


def test_places_count_on_through_the_steps_of_a_round() -> None:
    run = measured_state()
    first, _ = run.admit([proposal(0.1, part=FOUR), proposal(0.5, part=FOUR)])
    assert run.answer_place(1, run.open_round.answers) == 1
    run.record_parts(first, [result(candidate, samples=4) for candidate in first])
    before = run.open_round.answers
    assert [run.answer_place(index, before) for index in (1, 0)] == [3, 2]
    second, [rejection] = run.admit([proposal(0.1), proposal(0.1)])
    assert [second[0].index, rejection.proposed_index] == [2, 3]
    run.record_round(second, [result(second[0])])
    [third], _ = run.admit([proposal(0.4)])
    assert third.index == 0


def test_a_round_with_parts_beside_it_is_decided_by_its_candidates_alone() -> None:
    run, parent = _with_a_candidate(0.1)
    step, _ = run.admit([proposal(0.1, parent_candidate_ids=(parent,), part=FOUR), proposal(0.2)])
    results = [result(step[0], 0.99), result(step[1], 0.95)]
    assert run.ends_round(step)
    assert [facts.candidate_id for facts in run.record_parts(step, results)] == [parent]
    facts = run.record_round(step, results)
    assert [trial.score for trial in facts] == [0.95]
    record = round_record(run, step, [], facts, NOW)
    assert record.candidate_ids == (step[1].candidate_id,)
    assert run.best is not None
    assert (run.best.candidate_id, run.best.score) == (step[1].candidate_id, 0.95)


def test_what_runs_side_by_side_never_asks_for_the_same_answer() -> None:
    run = measured_state()
    asked = [
        proposal(0.9, part=FOUR),
        proposal(0.9, part=Part(first=3, count=2)),
        proposal(0.9, part=Part(first=4)),
        proposal(0.9),
    ]
    measured, rejections = run.admit(asked)
    assert [candidate.index for candidate in measured] == [0, 2]
    assert [rejection.reason_code for rejection in rejections] == [ReasonCode.DUPLICATE] * 2
    assert "measured on these samples by another proposal of the step" in rejections[0].message
    again, _ = run.admit([proposal(0.9, part=FOUR)])
    assert len(again) == 1


def test_rejections_beside_a_part_do_not_end_the_round_and_nothing_at_all_does() -> None:
    run, parent = _with_a_candidate(0.1)
    unchanged = proposal(0.1, parent_candidate_ids=(parent,))
    measured, rejections = run.admit([proposal(0.9, part=FOUR), unchanged])
    assert [rejection.reason_code for rejection in rejections] == [ReasonCode.NO_CHANGE]
    assert not run.ends_round(measured)
    record = step_record(run, rejections, NOW)
    assert (record.open, record.round, record.counts.rejected) == (True, 1, 1)
    assert run.ends_round([])


def test_parts_for_ever_end_the_round_at_last() -> None:
    run = measured_state()
    [part], _ = run.admit([proposal(0.9, part=FOUR)])
    steps = 0
    while not run.ends_round([part]):
        run.record_parts([part], [result(part)])
        steps += 1
    assert steps == MOST_STEPS - 1


def test_parts_that_fail_in_a_row_end_the_run_like_other_trials() -> None:
    run = measured_state()
    parts, _ = run.admit([proposal(0.9, part=FOUR), proposal(0.8, part=FOUR)])
    run.record_parts(parts, [result(part, None, "failed") for part in parts])
    assert run.facts(NOW).consecutive_failures == 2
