"""A target that answers the same every time is no confirmation of what was chosen for those answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import request
from workflows.rules.spec.default_splits import told_of_confirmation
from workflows.rules.statistics import TrialAnswers
from workflows.rules.statistics.sameness import answered_alike

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


@pytest.mark.parametrize(
    ("optimizer", "splits", "told"),
    [
        ({"name": "compress"}, None, "with fresh answers to the samples of the search, or where these are all alike"),
        ({"name": "compress"}, {"validation": 1.0}, "with fresh answers to the samples of the search, or where these are all"),
        ({"name": "refine", "proposer": {"kind": "noop"}}, None, "by cross-fitting over the samples of the search"),
        ({"name": "refine", "proposer": {"kind": "noop"}}, "none", None),
    ],
)
def test_a_run_says_how_its_winner_is_confirmed_where_nothing_is_held_back(
    optimizer: dict[str, Any], splits: dict[str, float] | str | None, told: str | None
) -> None:
    dataset = {"items": [{"input": {"q": "1 + 1"}, "expected": "2"}], "splits": splits}
    spec = request(optimizer=optimizer, dataset=dataset)
    words = told_of_confirmation(spec, 0) or ""
    assert words.partition(": the winner is confirmed ")[2].startswith(told) if told is not None else not words
    assert told_of_confirmation(spec, 30) is None
