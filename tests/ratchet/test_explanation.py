"""A malformed spec gets one line that names the field, what was written, and the fix."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from ratchet._text.explanation import explain
from tests.support.spec_building import SPEC, spec
from workflows.model.run.contract import RunInput
from workflows.model.spec.request import OptimizationRequest


def _structured(kind: str, **definition: Any) -> dict[str, Any]:
    return {"configuration": {"n": {"change": "structured", "type": kind, **definition}}}


def _text(**definition: Any) -> dict[str, Any]:
    return {"configuration": {"n": {"change": "text", **definition}}}


NO_FACTOR_NAME = "start with a letter or _, go on with letters, digits and _ . / : -, at most 128 characters"
NO_NAME = "is no name; start with a letter or digit, go on with letters, digits and _ . -, at most 100 characters"
NO_FLAG_NAME = "is no name for a flag; start with a letter or _, go on with letters, digits and _ . -, at most 64 characters"
A_MAPPING = "must be a mapping of names to values"
NO_DURATION = "is not a duration; write seconds or text such as 90s, 15m, 2h"

MALFORMED: list[tuple[dict[str, Any], str]] = [
    # the spec itself
    ({"optimiser": 1}, "optimiser: is not a known field; did you mean optimizer?"),
    ({"carried": {}}, "carried: is not a known field; remove it or check its spelling"),
    ({"name": "a b"}, f'name: {NO_NAME} (is "a b")'),
    ({"name": "x\n"}, f'name: {NO_NAME} (is "x\\n")'),
    ({"name": 5}, "name: must be text (is 5)"),
    ({"use_case": "a/b"}, f'use_case: {NO_NAME} (is "a/b")'),
    ({"replicates": 0}, "replicates: must be at least 1 (is 0)"),
    ({"replicates": 1001}, "replicates: must be at most 1,000 (is 1001)"),
    ({"replicates": "many"}, 'replicates: must be a whole number (is "many")'),
    ({"samples_per_trial": 0}, "samples_per_trial: must be at least 1 (is 0)"),
    ({"seed": -1}, "seed: must be at least 0 (is -1)"),
    ({"seed": 2**63}, "seed: must be less than 9,223,372,036,854,775,808 (is 9223372036854775808)"),
    ({"seed": 1.5}, "seed: must be a whole number (is 1.5)"),
    ({"reuse": "sometimes"}, "reuse: use one of 'run', 'always' or 'never' (is \"sometimes\")"),
    ({"prices": {"m": {"input": 1}}}, "prices.m.output: is missing; add it"),
    ({"prices": {"m": {"input": -1, "output": 1}}}, "prices.m.input: must be at least 0 (is -1)"),
    ({"prompt": 5}, "prompt: must be a mapping of names to values (is 5)"),
    ({"prompt": {}}, "prompt: needs the name of a stored prompt, or a file; give exactly one of the two"),
    (
        {"prompt": {"name": "a/b", "file": "c"}},
        "prompt: needs the name of a stored prompt, or a file; give exactly one of the two",
    ),
    (
        {"prompt": {"file": "c", "tag": "beta"}},
        "prompt: tag belongs to a stored prompt; drop it, or give the prompt's name instead of a file",
    ),
    (
        {"prompt": "../../etc/passwd"},
        "prompt.name: in prompt '../../etc/passwd', segment '..' is not allowed; use 1 to 64 of a-z, 0-9, dot, underscore and "
        'hyphen, beginning with a letter or digit (is "../../etc/passwd")',
    ),
    (
        {"prompt": {"name": "a/b", "tag": "stable\n"}},
        "prompt.tag: tag 'stable\\n' is not allowed; use 1 to 64 of a-z, 0-9, dot, underscore and hyphen, "
        'beginning with a letter or digit (is "stable\\n")',
    ),
    ({"prompt": {"name": "a/b", "version": "1"}}, "prompt.version: is not a known field; remove it or check its spelling"),
    ({"flags": ["new"]}, f"flags: {A_MAPPING} (is a list)"),
    ({"flags": {"größe": 1}}, f'flags.größe: {NO_FLAG_NAME} (is "größe")'),
    ({"flags": {"a": float("inf")}}, "flags.a: inf is not a finite number (is Infinity)"),
    (
        {"flags": {"a": "x" * 4_000}},
        "flags: are 4,009 bytes; at most 4,000 fit into a header, make larger settings frozen factors",
    ),
    # configuration
    ({"configuration": {}}, "configuration: is empty; add at least one entry, or name a prompt"),
    ({"configuration": [1]}, f"configuration: {A_MAPPING} (is a list)"),
    ({"configuration": {"a b": 1}}, f'configuration.a b: is no name for a factor; {NO_FACTOR_NAME} (is "a b")'),
    ({"configuration": {"n": float("nan")}}, "configuration.n.value: nan is not a finite number (is NaN)"),
    ({"configuration": {"n": "a\x00"}}, 'configuration.n.value: text contains a NUL character; remove it (is "a\\u0000")'),
    (
        {"configuration": {"n": "\ud800"}},
        'configuration.n.value: text contains a lone surrogate at position 0; remove it (is "\\ud800")',
    ),
    (
        {"configuration": {"n": datetime.date(2026, 1, 2)}},
        "configuration.n.value: date is not a JSON value; use text, numbers, booleans, lists or mappings "
        '(is "datetime.date(2026, 1, 2)")',
    ),
    ({"configuration": {"n": {1: 2}}}, "configuration.n.value: key 1 is not text; quote it"),
    (
        {"configuration": {"n": 10**6000}},
        "configuration.n.value: a whole number of more than 308 digits is too large; write it as text (is of type int)",
    ),
    (
        {"configuration": {"n": {"change": "sometimes", "value": 1}}},
        "configuration.n: has change 'sometimes'; use one of 'frozen', 'text', 'structured'",
    ),
    ({"configuration": {"n": {"change": "frozen"}}}, "configuration.n.value: is missing; add it"),
    (
        {"configuration": {"n": "x" * 300_000}},
        "configuration: is 300,008 bytes; at most 262,144 fit, keep larger values behind a reference",
    ),
    (_text(), "configuration.n.value: is missing; add it"),
    (_text(value=5), "configuration.n.value: must be text (is 5)"),
    (_text(value=" "), "configuration.n: Factor value cannot be empty"),
    (_text(value="abcd", max_length=3), "configuration.n: Factor value exceeds max length 3 (was 4)"),
    (_text(value="a", max_length=0), "configuration.n.max_length: must be at least 1 (is 0)"),
    (_text(value="a", maxlength=3), "configuration.n.maxlength: is not a known field; did you mean max_length?"),
    (
        {"configuration": {"n": {"change": "structured", "value": 1}}},
        "configuration.n: needs type, which says what it is; add it",
    ),
    (
        _structured("range", value=1),
        "configuration.n: has type 'range'; use one of 'number', 'integer', 'choice', 'order', 'flag', 'json'",
    ),
    (_structured("number", value=1, min=0), "configuration.n.max: is missing; add it"),
    (_structured("number", value="x", min=0, max=1), 'configuration.n.value: must be a number (is "x")'),
    (_structured("number", value=1, min=2, max=3), "configuration.n: value 1.0 is outside min 2.0 … max 3.0"),
    (_structured("number", value=1, min=0, max=float("inf")), "configuration.n.max: must be a finite number (is Infinity)"),
    (_structured("integer", value=1.5, min=0, max=5), "configuration.n.value: must be a whole number (is 1.5)"),
    (_structured("integer", value=1, min=0, max=5, step=0), "configuration.n.step: must be more than 0 (is 0)"),
    (
        _structured("choice", value="x", choices=["a"]),
        "configuration.n: value 'x' is not one of choices; add it or start from one of them",
    ),
    (
        _structured("choice", value="a", choices=["a", "a"]),
        "configuration.n: choices contains the same value twice; name each once",
    ),
    (_structured("choice", value="a", choices=[]), "configuration.n.choices: is empty; add at least one entry"),
    (_structured("order", value="ab"), 'configuration.n.value: must be a list (is "ab")'),
    (
        _structured("order", value=["a", "a"]),
        "configuration.n: value contains the same item twice; an order needs distinct items",
    ),
    (_structured("flag", value="yes"), 'configuration.n.value: must be true or false (is "yes")'),
    (_structured("json", value=1), "configuration.n.schema: is missing; add it"),
    (_structured("json", value=1, schema="object"), f'configuration.n.schema: {A_MAPPING} (is "object")'),
    # target
    ({"target": "x"}, f'target: {A_MAPPING} (is "x")'),
    ({"target": {}}, "target: needs kind, which says what it is; add it"),
    (
        {"target": {"kind": "oracle"}},
        "target: has kind 'oracle'; use one of 'chat', 'agent', 'http', 'python', 'activity', 'external'",
    ),
    ({"target": {"kind": "chat", "messages": []}}, "target.messages: is empty; add at least one entry"),
    ({"target": {"kind": "chat", "messages": "hi"}}, 'target.messages: must be a list (is "hi")'),
    (
        {"target": {"kind": "chat", "messages": [{"role": "boss", "content": "x"}]}},
        "target.messages[0].role: use one of 'system', 'user', 'assistant', 'developer' or 'tool' (is \"boss\")",
    ),
    (
        {"target": {"kind": "python", "ref": "module"}},
        'target.ref: is not a plug-in reference; write package.module:attribute (is "module")',
    ),
    (
        {"target": {**SPEC["target"], "parameters": {"a": [{"b": datetime.date(2026, 1, 2)}]}}},
        "target.parameters: date is not a JSON value; use text, numbers, booleans, lists or mappings",
    ),
    # dataset
    ({"dataset": []}, "dataset: items is empty; give at least one sample"),
    ({"dataset": {}}, "dataset: needs exactly one of items, path, paths, ref, id or the name of a stored dataset (has none)"),
    (
        {"dataset": {"path": "a.jsonl", "id": "0" * 64}},
        "dataset: needs exactly one of items, path, paths, ref, id or the name of a stored dataset (has path, id)",
    ),
    ({"dataset": "a.jsonl"}, f'dataset: {A_MAPPING} (is "a.jsonl")'),
    ({"dataset": {"path": ""}}, "dataset.path: is empty; write something"),
    (
        {"dataset": {"id": "abc"}},
        'dataset.id: is no content hash; give the 64 hexadecimal digits that ingesting the dataset printed (is "abc")',
    ),
    (
        {"dataset": [{"id": "x" * 201, "input": 1}]},
        f'dataset.items[0].id: is too long; at most 200 characters (is "{"x" * 78}…)',
    ),
    ({"dataset": {"path": "x" * 1001}}, f'dataset.path: is too long; at most 1,000 characters (is "{"x" * 78}…)'),
    ({"dataset": [{"expected": 1}]}, "dataset.items[0].input: is missing; add it"),
    ({"dataset": ["x"]}, f'dataset.items[0]: {A_MAPPING} (is "x")'),
    ({"dataset": [{"input": 1, "weight": 0}]}, "dataset.items[0].weight: must be more than 0 (is 0)"),
    (
        {"dataset": [{"input": 1, "wieght": 1}]},
        "dataset.items[0].wieght: is not a known field; did you mean weight?",
    ),
    (
        {"dataset": {"path": "a", "splits": {"train": 0.9, "test": 0.9}}},
        "dataset.splits: shares add up to 1.8; they must not exceed 1",
    ),
    (
        {"dataset": {"path": "a", "splits": {"test": 0.5}}},
        "dataset.splits: train and validation are both 0; candidates need samples to be scored on",
    ),
    ({"dataset": {"path": "a", "splits": {"train": 2}}}, "dataset.splits.train: must be at most 1 (is 2)"),
    # scorers and objective
    ({"scorers": []}, "scorers: is empty; add at least one entry"),
    ({"scorers": {"kind": "exact"}}, "scorers: must be a list (is a mapping)"),
    ({"scorers": ["exact"]}, f'scorers[0]: {A_MAPPING} (is "exact")'),
    (
        {"scorers": [{"kind": "exact"}, {"kind": "exact"}]},
        "scorers: name 'exact' is used twice; give each scorer a name of its own",
    ),
    (
        {"scorers": [{"kind": "exact", "name": "a b"}]},
        "scorers[0].name: is no name for a score; start with a letter or _, go on with letters, digits and _ . -, "
        'at most 64 characters (is "a b")',
    ),
    (
        {"scorers": [{"kind": "regex", "pattern": "("}]},
        'scorers[0].pattern: is not a regular expression: missing ), unterminated subpattern at position 0 (is "(")',
    ),
    ({"scorers": [{"kind": "python"}]}, "scorers[0].ref: is missing; add it"),
    ({"objective": {"direction": "up"}}, "objective.direction: use one of 'maximize' or 'minimize' (is \"up\")"),
    ({"objective": {"kind": "weighted"}}, "objective: components belong to kind weighted, and kind weighted needs them"),
    ({"objective": {"kind": "python"}}, "objective: ref belongs to kind python, and kind python needs it"),
    (
        {"objective": {"kind": "weighted", "components": [{"weight": 0}]}},
        "objective.components[0].weight: must be more than 0 (is 0)",
    ),
    # optimizer, stop, budget, execution
    ({"optimizer": {"name": "refine"}}, "optimizer.proposer: is missing; add it"),
    ({"optimizer": 3}, f"optimizer: {A_MAPPING} (is 3)"),
    ({"optimizer": {"proposer": "step"}}, f'optimizer.proposer: {A_MAPPING} (is "step")'),
    ({"optimizer": {"proposer": {"kind": "model"}}}, "optimizer.proposer.model: is missing; add it"),
    ({"optimizer": {"proposer": {"kind": "model", "model": ""}}}, "optimizer.proposer.model: is empty; write something"),
    (
        {"optimizer": {"proposer": {"kind": "step"}, "parent": "first"}},
        "optimizer.parent: use one of 'best' or 'last' (is \"first\")",
    ),
    ({"stop": {"max_rounds": 1.5}}, "stop.max_rounds: must be a whole number (is 1.5)"),
    ({"stop": {"min_delta": -1}}, "stop.min_delta: must be at least 0 (is -1)"),
    ({"stop": {"score": float("inf")}}, "stop.score: must be a finite number (is Infinity)"),
    ({"budget": 5}, f"budget: {A_MAPPING} (is 5)"),
    ({"budget": {"cost": -0.5}}, "budget.cost: must be at least 0 (is -0.5)"),
    ({"budget": {"wall_time": "soon"}}, f'budget.wall_time: {NO_DURATION}, 1h30m (is "soon")'),
    ({"budget": {"wall_time": True}}, f"budget.wall_time: {NO_DURATION} (is true)"),
    ({"budget": {"wall_time": -1}}, "budget.wall_time: is not a duration between 0 and 365 days (is -1)"),
    ({"execution": {"sample_timeout": 0}}, "execution: sample_timeout must be longer than 0"),
    ({"execution": {"min_coverage": 2}}, "execution.min_coverage: must be at most 1 (is 2)"),
    ({"execution": {"concurrent_samples": 10_001}}, "execution.concurrent_samples: must be at most 10,000 (is 10001)"),
]


def _lines(value: Any, model: type[OptimizationRequest] = OptimizationRequest) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(value)
    return explain(refused.value)


@pytest.mark.parametrize(("changes", "message"), MALFORMED, ids=[message[:60] for _, message in MALFORMED])
def test_a_malformed_spec_gets_one_line_with_field_value_and_fix(changes: dict[str, Any], message: str) -> None:
    assert _lines(spec(**changes)) == [message]


def test_a_misspelt_field_hides_no_other_mistake() -> None:
    text = _text(value="a", max_lenght=3, max_length="x")
    scorers = [{"kind": "extract"}, {"kind": "rubric", "rubrik": "Is it polite?", "scale": [5, 1], "model": 5}]
    factor = {
        "configuration": {"n": {"change": "structured", "type": "number", "mni": 1, "value": 1e999, "min": "?", "max": 3}}
    }
    assert _lines(spec(**text)) == [
        'configuration.n.max_length: must be a whole number (is "x")',
        "configuration.n.max_lenght: is not a known field; did you mean max_length?",
    ]
    assert _lines(spec(**factor)) == [
        "configuration.n.value: must be a finite number (is Infinity)",
        'configuration.n.min: must be a number (is "?")',
        "configuration.n.mni: is not a known field; did you mean min?",
    ]
    told = "\n".join(_lines(spec(scorers=scorers)))
    assert "scorers[1].rubric: is missing; add it" in told
    assert "scorers[1].rubrik: is not a known field; did you mean rubric?" in told
    assert "scorers[1].model: must be text (is 5)" in told


@pytest.mark.parametrize(("changes", "message"), MALFORMED[::9])
def test_the_workflow_says_the_same(changes: dict[str, Any], message: str) -> None:
    if "carried" not in changes:
        assert _lines(spec(**changes), RunInput) == [message]


def test_all_that_is_missing_is_named_at_once() -> None:
    needed = ("configuration", "target", "dataset", "objective", "optimizer")
    assert _lines({}) == [f"{name}: is missing; add it" for name in needed]
    assert _lines([]) == [f"{A_MAPPING} (is a list)"]


def test_a_factor_named_like_a_kind_keeps_its_name_in_the_path() -> None:
    assert _lines(spec(configuration={"text": {"change": "text"}})) == ["configuration.text.value: is missing; add it"]
    assert _lines(spec(configuration={"number": {"change": "structured", "type": "number", "value": 1, "min": 0}})) == [
        "configuration.number.max: is missing; add it"
    ]


def test_no_line_repeats_a_whole_object_or_a_long_text() -> None:
    for changes, _ in MALFORMED:
        for line in _lines(spec(**changes)):
            assert "{" not in line
            assert len(line) < 250
    [line] = _lines(spec(seed="x" * 1000))
    assert line == f'seed: must be a whole number (is "{"x" * 78}…)'


def test_a_line_can_always_be_written_down() -> None:
    for line in _lines(spec(configuration={"\ud800": 1})):
        line.encode()


def test_twenty_lines_are_enough() -> None:
    lines = _lines(spec(**{f"unknown{index}": 1 for index in range(25)}))
    assert len(lines) == 21
    assert lines[-1] == "… and 5 more"


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(MALFORMED) >= 60
