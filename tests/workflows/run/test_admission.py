"""Admission: which proposals become candidates, under which names, with which answers of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet._formats.canonical import content_hash, normalize
from ratchet.optimizer import Withdrawal
from tests.support.spec_building import NOW, measured_state, proposal, result, state
from workflows.model.run.candidates import ReasonCode
from workflows.model.spec.execution import Adjustment, BudgetChange
from workflows.run.round_records import round_record


def test_the_baseline_is_round_0_and_a_trial_like_any_other() -> None:
    run = state()
    digest = content_hash(run.request.baseline)
    candidate = run.baseline_candidate(digest)
    assert (candidate.candidate_id, candidate.round, candidate.first_replicate) == (f"r0-{digest[:8]}", 0, 0)
    assert run.counts.running == 1
    run.record_baseline(candidate, result(candidate, 0.5))
    assert (run.round, len(run.history), run.counts.completed, run.counts.running, run.spending.spend.trials) == (0, 1, 1, 0, 1)
    assert run.best is not None
    assert (run.best.score, run.best.since_round) == (0.5, 0)


def test_the_baseline_is_tried_in_canonical_form_like_every_candidate() -> None:
    number = {"value": 1.0, "change": "structured", "type": "number", "min": 0, "max": 2}
    run = state(configuration={"t": number}, target={"kind": "python", "ref": "a:t"})
    candidate = run.baseline_candidate(content_hash(run.request.baseline))
    assert isinstance(candidate.configuration["t"], int)
    run.record_baseline(candidate, result(candidate))
    assert run.baseline_candidate_again().configuration == candidate.configuration == normalize(run.request.baseline)


def test_a_failed_baseline_is_no_best() -> None:
    run = state()
    candidate = run.baseline_candidate("0" * 64)
    run.record_baseline(candidate, result(candidate, None, "failed"))
    assert run.best is None
    assert round_record(run, [candidate], [], run.history, NOW).new_best is False


def test_duplicates_are_kept_out_within_a_round_and_across_rounds() -> None:
    run = measured_state()
    candidates, rejections = run.admit([proposal(0.1), proposal(0.2), proposal(0.1), proposal(0.2, resample=True)])
    assert [candidate.index for candidate in candidates] == [0, 1, 3]
    assert [(rejection.proposed_index, rejection.reason_code) for rejection in rejections] == [(2, ReasonCode.DUPLICATE)]
    run.record_round(candidates, [result(candidate) for candidate in candidates])
    _, again = run.admit([proposal(0.1)])
    assert [rejection.reason_code for rejection in again] == [ReasonCode.DUPLICATE]
    assert again[0].round == 2


def test_a_resample_is_a_candidate_of_its_own_with_answers_of_its_own() -> None:
    run = measured_state(replicates=3)
    same = [proposal(0.1), proposal(0.1, resample=True), proposal(0.1, resample=True)]
    candidates, _ = run.admit(same)
    run.record_round(candidates, [result(candidate) for candidate in candidates])
    later, _ = run.admit([proposal(0.1, resample=True)])
    made = [*candidates, *later]
    assert len({candidate.candidate_id for candidate in made}) == 4
    assert len({candidate.config_hash for candidate in made}) == 1
    assert [candidate.first_replicate for candidate in made] == [0, 3, 6, 9]
    assert made[1].candidate_id == f"{made[0].candidate_id}-2"


def test_a_proposal_that_equals_its_parent_is_no_change() -> None:
    run = measured_state()
    [first], _ = run.admit([proposal(0.1)])
    run.record_round([first], [result(first)])
    _, [rejection] = run.admit([proposal(0.1, parent_candidate_ids=(first.candidate_id,))])
    assert rejection.reason_code is ReasonCode.NO_CHANGE
    assert rejection.parent_candidate_ids == (first.candidate_id,)


def test_a_parent_nobody_knows_is_named_but_not_recorded_as_a_parent() -> None:
    run = measured_state()
    _, [rejection] = run.admit([proposal(0.1, parent_candidate_ids=("r9-x\x00",))])
    assert rejection.reason_code is ReasonCode.UNKNOWN_PARENT
    assert rejection.message == "parent 'r9-x␀' is no candidate of this run"
    assert rejection.parent_candidate_ids == ()


def test_several_parents_are_kept_as_lineage() -> None:
    run = measured_state()
    parents, _ = run.admit([proposal(0.1), proposal(0.2)])
    run.record_round(parents, [result(parent) for parent in parents])
    ids = tuple(parent.candidate_id for parent in parents)
    [child], _ = run.admit([proposal(0.3, parent_candidate_ids=ids)])
    [facts] = run.record_round([child], [result(child)])
    assert child.parent_candidate_ids == facts.parent_candidate_ids == ids


def test_two_configurations_that_share_eight_digits_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = iter([f"{'0' * 8}{index:056d}" for index in range(1, 9)])
    monkeypatch.setattr("workflows.rules.proposals.validation.content_hash", lambda value: next(fakes))
    run = measured_state()
    candidates, _ = run.admit([proposal(0.1), proposal(0.2), proposal(0.3)])
    assert [candidate.candidate_id for candidate in candidates] == ["r1-00000000", "r1-00000000-2", "r1-00000000-3"]


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, 5.0]), min_size=1, max_size=8),
    st.integers(0, 6),
    st.integers(0, 60),
)
def test_no_more_is_admitted_than_the_budget_allows(temperatures: list[float], trials: int, samples: int) -> None:
    run = measured_state(budget={"trials": trials, "samples": samples})
    candidates, rejections = run.admit([proposal(temperature) for temperature in temperatures])
    assert not trials or 1 + len(candidates) <= max(trials, 1)
    assert not samples or 10 + len(candidates) * 10 <= max(samples, 10)
    assert len(candidates) + len(rejections) == len(temperatures)
    assert sorted(c.index for c in candidates) + sorted(r.proposed_index for r in rejections) != []
    for rejection in rejections:
        if rejection.reason_code is ReasonCode.BUDGET:
            assert rejection.message == "no budget is left for this trial"
            assert rejection.config_hash is not None


def test_a_trial_the_budget_refused_may_be_tried_once_there_is_more() -> None:
    run = measured_state(budget={"trials": 2})
    candidates, [refused] = run.admit([proposal(0.1), proposal(0.2)])
    assert refused.reason_code is ReasonCode.BUDGET
    run.record_round(candidates, [result(candidate) for candidate in candidates])
    run.adjust(Adjustment(budget=BudgetChange(trials=3)))
    [candidate], _ = run.admit([proposal(0.2)])
    assert candidate.first_replicate == 0


def test_what_its_own_optimizer_withdraws_is_a_rejection_for_the_record() -> None:
    run = measured_state()
    longer = Withdrawal(reason_code="not_smaller", message="prompt: 12 tokens more")
    strange = Withdrawal(reason_code="whatever", message="I changed my mind")
    candidates, rejections = run.admit([proposal(0.1, withdrawn=longer), proposal(0.2, withdrawn=strange), proposal(0.3)])
    assert [candidate.index for candidate in candidates] == [2]
    assert [(rejection.reason_code, rejection.message) for rejection in rejections] == [
        (ReasonCode.NOT_SMALLER, "prompt: 12 tokens more"),
        (ReasonCode.INVALID_SHAPE, "I changed my mind"),
    ]
    again, _ = run.admit([proposal(0.1)])
    assert len(again) == 1  # it was never tried


def test_what_is_invalid_is_told_before_what_is_withdrawn() -> None:
    lost = proposal(0.1, prompt="No placeholder", withdrawn=Withdrawal(reason_code="not_smaller", message="longer"))
    _, [rejection] = measured_state().admit([lost])
    assert rejection.reason_code is ReasonCode.PLACEHOLDER_LOST
