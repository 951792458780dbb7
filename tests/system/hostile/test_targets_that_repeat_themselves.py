"""A target that answers the same every time is no confirmation of what was chosen for those answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import measured_state, request
from workflows.rules.releases.release_gate import unconfirmed
from workflows.rules.spec.judgement_check import confirmed_by_fresh_answers
from workflows.rules.statistics import TrialAnswers
from workflows.rules.statistics.sameness import answered_alike
from workflows.run.ending import confirmed

BEFORE = TrialAnswers([1.0, 0.0, 0.5, None], singles=[(1.0, 1.0), (), (), ()])


@pytest.mark.parametrize(
    ("fresh_answers", "alike"),
    [
        (TrialAnswers([1.0, 0.0, 0.5, 1.0]), True),
        (TrialAnswers([1.0, 0.0, 0.5, None], singles=[(1.0, 1.0, 1.0), (0.0, 0.0), (), ()]), True),
        (TrialAnswers([1.0, 1.0, 0.5, None]), False),
        (TrialAnswers([1.0, 0.0, 0.5, None], singles=[(), (), (0.25, 0.75), ()]), False),
        (TrialAnswers([None, None, None, 1.0]), False),
    ],
)
def test_answers_are_alike_when_every_single_one_scored_as_before(fresh_answers: TrialAnswers, alike: bool) -> None:
    assert answered_alike(BEFORE, fresh_answers) is alike


def test_answers_that_only_repeat_those_of_the_search_confirm_nothing_and_it_says_what_would() -> None:
    found = confirmed(measured_state(0.5), 0.5, 0.6, None, how="fresh_answers", alike=True)
    assert found.judged is None
    assert found.explanation == (
        "not confirmed: the target answers the same every time, so that fresh answers to the samples of the search show "
        "nothing new; hold back samples with dataset.splits.test"
    )
    assert (unconfirmed(found) or "").startswith("nothing confirmed it: the target answers the same every time")


@pytest.mark.parametrize(
    ("optimizer", "splits", "told"),
    [
        ({"name": "compress"}, None, True),
        ({"name": "compress"}, {"validation": 1.0}, True),
        ({"name": "compress"}, {"validation": 0.5, "test": 0.5}, False),
        ({"name": "refine", "proposer": {"kind": "noop"}}, None, False),
    ],
)
def test_check_recommends_a_test_split_where_only_fresh_answers_would_confirm(
    optimizer: dict[str, Any], splits: dict[str, float] | None, told: bool
) -> None:
    dataset = {"items": [{"input": {"q": "1 + 1"}, "expected": "2"}], "splits": splits}
    messages = list(confirmed_by_fresh_answers(request(optimizer=optimizer, dataset=dataset), {}))
    assert bool(messages) is told
    assert all(message.startswith("dataset.splits: holds back no test samples") for message in messages)
