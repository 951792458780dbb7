"""A spec that names no optimizer: which one it means, why, and that it is the same run as one that writes it out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from clients.runs.identity import run_id_of
from ratchet._text.explanation import explain
from tests.support.spec_building import SPEC
from workflows.model.spec.request import OptimizationRequest

TEXT = {"value": "Answer {{input.q}}", "change": "text"}
HEAT = {"value": 0.5, "change": "structured", "type": "number", "min": 0, "max": 1}
LIST = {"value": [], "change": "structured", "type": "json", "schema": {"type": "array"}}
REWRITING = {"name": "reflect", "proposer": {"kind": "model", "model": "small"}}


def _read(**changes: Any) -> OptimizationRequest:
    named = {name: value for name, value in SPEC.items() if name != "optimizer"}
    return OptimizationRequest.model_validate({**named, **changes})


def _id(request: OptimizationRequest) -> str:
    return run_id_of(request, "d" * 64, {}, {})


@pytest.mark.parametrize(
    ("changes", "optimizer"),
    [
        ({"configuration": {"prompt": TEXT, "heat": HEAT, "model": "small"}}, REWRITING),
        ({"configuration": {"prompt": TEXT, "model": "small"}, "optimizer": None}, REWRITING),
        ({"configuration": {"model": "small"}, "prompt": "support/triage"}, REWRITING),
        ({"configuration": {"prompt": "x", "heat": HEAT, "model": "small"}}, {"name": "search"}),
        ({"configuration": {"prompt": TEXT, "model": "small"}, "optimizer": {}}, REWRITING),
        (
            {"configuration": {"prompt": TEXT}, "target": {**SPEC["target"], "model": "large", "base_url": "http://h/v1"}},
            {"name": "reflect", "proposer": {"kind": "model", "model": "large", "base_url": "http://h/v1"}},
        ),
    ],
)
def test_what_goes_without_saying_is_the_same_run_written_out(changes: dict[str, Any], optimizer: dict[str, Any]) -> None:
    silent, written = _read(**changes), _read(**{**changes, "optimizer": optimizer})
    assert silent == written
    assert _id(silent) == _id(written)
    assert silent.why_its_optimizer is not None
    assert _id(silent) != _id(_read(**{**changes, "optimizer": {"name": "search", "candidates_per_round": 9}}))


@pytest.mark.parametrize(
    ("configuration", "why"),
    [
        ({"prompt": TEXT, "model": "small"}, "the default where texts may change; small rewrites them"),
        ({"prompt": "x", "heat": HEAT}, "the default where only structured factors may change"),
    ],
)
def test_why_it_was_chosen_is_told(configuration: dict[str, Any], why: str) -> None:
    assert _read(configuration=configuration).why_its_optimizer == why


@pytest.mark.parametrize("optimizer", ["none", {"name": "refine", "proposer": {"kind": "step"}}, {**REWRITING, "minibatch": 5}])
def test_nothing_is_told_of_one_that_somebody_chose(optimizer: Any) -> None:
    assert _read(optimizer=optimizer).why_its_optimizer is None


@pytest.mark.parametrize(
    ("configuration", "given", "name"),
    [
        ({"prompt": TEXT}, {"proposer": {"kind": "model", "model": "large"}}, "reflect"),
        ({"prompt": TEXT, "heat": HEAT}, {"proposer": {"kind": "python", "ref": "a:b"}, "minibatch": 3}, "reflect"),
        ({"prompt": TEXT, "model": "small"}, {"minibatch": 3}, "reflect"),
        ({"prompt": "x", "heat": HEAT}, {"candidates_per_round": 2}, "search"),
        ({"prompt": "x", "heat": HEAT}, {"proposer": {"kind": "python", "ref": "a:b"}}, "refine"),
        ({"prompt": TEXT, "heat": HEAT}, {"proposer": {"kind": "step"}}, "refine"),
        ({"prompt": TEXT}, {"proposer": {"kind": "noop"}}, "refine"),
    ],
)
def test_options_without_a_name_are_those_of_the_optimizer_that_fits(
    configuration: dict[str, Any], given: dict[str, Any], name: str
) -> None:
    read = _read(configuration=configuration, optimizer=given)
    assert read == _read(
        configuration=configuration,
        optimizer={"proposer": REWRITING["proposer"], **given, "name": name} if name == "reflect" else {**given, "name": name},
    )
    assert read.optimizer.name == name


def test_what_the_default_takes_for_granted_is_completed_too() -> None:
    assert _read(configuration={"prompt": "x", "heat": HEAT}).stop.no_improvement == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"configuration": {"prompt": "x"}}, "optimizer: is missing, and nothing may change that one is taken for by itself;"),
        ({"configuration": {"prompt": "x", "examples": LIST}}, "optimizer: is missing, and nothing may change"),
        ({"configuration": {"prompt": TEXT}}, "optimizer: is missing. It would be reflect, since texts may change, but the"),
        (
            {"configuration": {"prompt": TEXT}, "target": {"kind": "python", "ref": "a:b"}},
            "optimizer: is missing. It would be reflect",
        ),
    ],
)
def test_where_none_goes_without_saying_the_fix_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        _read(**changes)
    [line] = explain(refused.value)
    assert line.startswith(told)
    assert line.endswith(("none to measure what is there", "write {name: reflect, proposer: {kind: model, model: …}}"))
