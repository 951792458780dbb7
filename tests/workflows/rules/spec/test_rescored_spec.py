"""A spec that scores the answers of a run anew differs from its spec in nothing that these depend on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import request
from workflows.rules.spec.check import check_request
from workflows.rules.spec.rescored_spec import differing_fields, rescored

RUBRIC = {"kind": "rubric", "name": "exact", "rubric": "Is it right?", "model": "judge", "base_url": "http://localhost/v1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"scorers": [RUBRIC]},
        {"objective": {"metric": "exact", "direction": "minimize"}},
        {"judgement": {"alpha": 0.01}},
        {"prices": {"m": {"input": 1, "output": 2}}},
        {"stop": {"max_rounds": 1}, "budget": {"cost": 1}, "name": "other", "reuse": "always"},
    ],
)
def test_what_answers_do_not_depend_on_may_differ(changes: dict[str, Any]) -> None:
    assert list(differing_fields(request(**changes), request())) == []


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"seed": 8}, ["seed"]),
        ({"replicates": 2, "samples_per_trial": 1}, ["replicates", "samples_per_trial"]),
        ({"flags": {"new": True}}, ["flags"]),
        ({"target": {"kind": "python", "ref": "other:target"}}, ["target"]),
        ({"optimizer": {"proposer": {"kind": "noop"}}}, ["optimizer"]),
        ({"configuration": {**request().model_dump()["configuration"], "more": 1}}, ["configuration.more"]),
    ],
)
def test_everything_else_is_named(changes: dict[str, Any], fields: list[str]) -> None:
    assert list(differing_fields(request(**changes), request())) == fields


def test_all_candidates_are_judged_whatever_ended_the_run_before() -> None:
    made = rescored(request(stop={"score": 0.1}), request(), "before", [["r1-a", "r1-b"], ["r2-c"]])
    assert (made.optimizer.answers_of, made.optimizer.candidates_per_round) == ("before", 2)
    assert made.optimizer.most_trials(made.stop) == 4
    assert (made.stop.max_rounds, made.stop.no_improvement, made.stop.score) == (0, 0, None)
    assert check_request(made) == []
    assert [*differing_fields(request(scorers=[RUBRIC]), made)] == [], "one that was rescored may be rescored again"


def test_variations_of_frozen_values_stay_what_they_are() -> None:
    compared = request(optimizer={"name": "none", "configurations": [{"model": "large"}]}, configuration={"model": "small"})
    factor = rescored(compared, compared, "before", []).factors_in_play["model"]
    assert factor.model_dump()["choices"] == ["small", "large"]
