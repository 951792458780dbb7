"""Scorers and objectives as a spec writes them: what is refused, in which words, and what is understood."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from ratchet._text.explanation import explain
from tests.support.spec_building import request, spec
from workflows.model.spec.extensions.scorer_options import Scorer, placed_scorers
from workflows.model.spec.extraction import json_path_steps
from workflows.model.spec.request import OptimizationRequest, spec_schema
from workflows.rules.spec.check import check_request, models_used

RUBRIC = {"kind": "rubric", "rubric": "Is it polite?", "model": "judge"}
SIMILARITY = {"kind": "similarity", "model": "embedding"}
SCALE = "scorers[0].scale: is {}; go from the worst grade up to the best, over at most 100 steps, such as [1, 5]"
UNKNOWN = "is not a known field; remove it or check its spelling"
NO_PATTERN = "is not a regular expression: missing ), unterminated subpattern at position 0"
NO_PATH = "cannot be read from '[*]' on; write names and indexes, such as $.answers[0].label"
LABEL = {"kind": "classification", "name": "label"}


@pytest.mark.parametrize(
    ("scorers", "message"),
    [
        ([{**RUBRIC, "scale": [5, 1]}], SCALE.format("[5, 1]")),
        ([{**RUBRIC, "scale": [0, 1000]}], SCALE.format("[0, 1000]")),
        ([{"kind": "rubric", "model": "judge"}], "scorers[0].rubric: is missing; add it"),
        ([{**RUBRIC, "rubric": ""}], "scorers[0].rubric: is empty; write something"),
        ([{"kind": "similarity"}], "scorers[0].model: is missing; add it"),
        ([{"kind": "tokens", "not": True}], "scorers[0]: not: needs at_most; a bare number has no opposite"),
        ([{"kind": "exact", "extract": {"regex": "("}}], f'scorers[0].extract.regex: {NO_PATTERN} (is "(")'),
        ([{"kind": "exact", "extract": {"json_path": "$.a[*]"}}], f'scorers[0].extract.json_path: {NO_PATH} (is "$.a[*]")'),
        ([{"kind": "all_of", "scorers": []}], "scorers[0].scorers: is empty; add at least one entry"),
        (
            [{"kind": "all_of", "scorers": [{"kind": "exact", "ignorecase": True}]}],
            "scorers[0].scorers[0].ignorecase: is not a known field; did you mean ignore_case?",
        ),
        ([{"kind": "latency", "extract": {"strip": True}}], f"scorers[0].extract: {UNKNOWN}"),
    ],
)
def test_what_is_malformed_is_refused_with_field_and_fix(scorers: Any, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        OptimizationRequest.model_validate(spec(scorers=scorers))
    assert explain(refused.value) == [message]


def _nested(levels: int) -> dict[str, Any]:
    scorer: dict[str, Any] = {"kind": "exact"}
    for _ in range(levels):
        scorer = {"kind": "all_of", "scorers": [scorer]}
    return scorer


def test_combinations_have_a_depth() -> None:
    assert len(list(placed_scorers(request(scorers=[_nested(4)], objective="all_of").scorers))) == 5
    with pytest.raises(ValidationError, match="combined more than 4 deep"):
        request(scorers=[_nested(5)])
    with pytest.raises(ValidationError):
        request(scorers=[_nested(400)])


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {"objective": {"kind": "f1"}},
            "objective.kind: f1 is computed from labels; let objective.metric name a scorer of kind classification",
        ),
        (
            {"scorers": [LABEL], "objective": {"kind": "accuracy", "positive": "bug"}},
            "objective: accuracy has no positive and no average; drop them, or use precision, recall or f1",
        ),
        (
            {"scorers": [{**LABEL, "labels": ["a", "b"]}], "objective": {"kind": "recall", "positive": "c"}},
            "objective.positive: 'c' is none of the scorer's labels a, b",
        ),
        (
            {"objective": {"metric": "exact", "average": "micro"}},
            "objective: positive and average belong to kinds precision, recall, f1; drop them, or set kind",
        ),
        (
            {"scorers": [{"kind": "exact", "weight": 2}]},
            "scorers[0].weight: counts only among the members of a mean_of; use one, or a weighted objective",
        ),
        (
            {"scorers": [{**RUBRIC, "model": "{{factors.model}}"}], "objective": "rubric"},
            "scorers[0].model: takes no placeholder, or candidates could choose how they are graded; name one model",
        ),
        (
            {"scorers": [{"kind": "latency", "until": "first_token"}], "objective": {"direction": "minimize", "worst": 1e5}},
            "scorers[0].until: first_token is known only of answers that are streamed; set target.stream: true",
        ),
        (
            {"scorers": [{"kind": "latency"}], "objective": {"direction": "minimize"}},
            "objective.worst: is missing; a sample that fails would score 1, which may be better than any answer's latency; "
            "say what a failure counts as, or give the scorer at_most",
        ),
        (
            {
                "scorers": [_nested(1), {"kind": "any_of", "scorers": [{"kind": "json", "schema": {"type": "text"}}]}],
                "objective": "all_of",
            },
            "scorers[1].scorers[0].schema: is not a JSON Schema: type: 'text' is not one of array, boolean, integer, null, "
            "number, object, string",
        ),
    ],
)
def test_what_cannot_work_is_found_before_anything_is_paid(changes: dict[str, Any], finding: str) -> None:
    assert check_request(request(**changes)) == [finding]


@pytest.mark.parametrize(
    "changes",
    [
        {"scorers": [LABEL], "objective": {"kind": "f1", "average": "weighted"}},
        {"scorers": [{**LABEL, "labels": ["Bug", "b"]}], "objective": {"kind": "recall", "positive": "bug"}},
        {"scorers": [{"kind": "latency"}], "objective": {"direction": "minimize", "worst": 60_000}},
        {"scorers": [{"kind": "latency", "at_most": 800}], "objective": "latency"},
        {"scorers": [{"kind": "mean_of", "scorers": [{"kind": "exact", "weight": 2}, RUBRIC]}], "objective": "mean_of"},
        {
            "scorers": [LABEL, RUBRIC],
            "objective": {"kind": "weighted", "components": [{"kind": "f1", "metric": "label"}, {"metric": "rubric"}]},
        },
    ],
)
def test_what_works_is_let_in(changes: dict[str, Any]) -> None:
    assert check_request(request(**changes)) == []


def test_models_that_score_are_models_used_and_need_a_price() -> None:
    scorers = [SIMILARITY, {"kind": "all_of", "scorers": [RUBRIC]}]
    made = request(scorers=scorers, objective="similarity", budget={"cost": 1}, prices={"small": {"input": 1, "output": 1}})
    assert models_used(made)[1:] == [("scorers[0].model", "embedding"), ("scorers[1].scorers[0].model", "judge")]
    findings = check_request(made)
    assert [finding.partition(" has no price")[0] for finding in findings] == [
        "prices: 'embedding' (scorers[0].model)",
        "prices: 'judge' (scorers[1].scorers[0].model)",
    ]


def test_plug_ins_within_combinations_are_plug_ins_of_the_run() -> None:
    member = {"kind": "python", "ref": "mine:score", "version": "1"}
    made = request(scorers=[{"kind": "any_of", "scorers": [member]}], objective="any_of")
    assert made.plugin_references == {"mine:score": "1"}
    assert made.plugin_arguments == {"mine:score": (2,)}


def test_a_spec_reads_back_as_it_was_written() -> None:
    written = [
        {
            "kind": "all_of",
            "not": True,
            "scorers": [{**RUBRIC, "scale": [0, 10]}, {"kind": "json", "schema": {"type": "object"}}],
        },
        {"kind": "exact", "extract": {"json_path": "$.a"}},
    ]
    made = request(scorers=written, objective="all_of")
    for text in (made.model_dump_json(), made.model_dump_json(by_alias=True, exclude_defaults=True)):
        assert OptimizationRequest.model_validate_json(text).scorers == made.scorers
    adapter: TypeAdapter[list[Scorer]] = TypeAdapter(list[Scorer])
    assert adapter.validate_json(adapter.dump_json(made.scorers)) == made.scorers


def test_every_field_of_a_scorer_is_described() -> None:
    definitions = spec_schema()["$defs"]
    assert isinstance(definitions, dict)
    scorers = {name: part for name, part in definitions.items() if name.endswith("Scorer") or name == "Extract"}
    assert len(scorers) > 15
    for name, part in scorers.items():
        assert isinstance(part, dict)
        assert part.get("description"), name
        fields = part["properties"]
        assert isinstance(fields, dict)
        for field, described in fields.items():
            assert isinstance(described, dict)
            assert field == "kind" or described.get("description") or "$ref" in described, (name, field)


@pytest.mark.parametrize(
    ("path", "steps"),
    [("$", []), ("$.a", ["a"]), ("a.b", ["a", "b"]), ("$.a[0].b[-1]", ["a", 0, "b", -1]), ("$['a b']", ["a b"]), ("$[0]", [0])],
)
def test_paths_are_names_and_indexes(path: str, steps: list[str | int]) -> None:
    assert json_path_steps(path) == steps


@pytest.mark.parametrize("path", ["$..a", "$.a[", "$.a[*]", "a b", "$.a[?(@.b)]"])
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="write names and indexes"):
        json_path_steps(path)
