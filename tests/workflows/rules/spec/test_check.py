"""What can be wrong with a spec although each of its fields is well-formed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spec_building import request
from workflows.rules.spec.check import check_request, models_used


def _chat(content: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "chat", "messages": [{"role": "user", "content": content}], "model": "m", **fields}


def _text(value: str, **fields: Any) -> dict[str, Any]:
    return {"value": value, "change": "text", **fields}


def _choice(value: Any, *choices: Any) -> dict[str, Any]:
    return {"value": value, "change": "structured", "type": "choice", "choices": list(choices)}


MODEL = {"proposer": {"kind": "model", "model": "big"}}
STEP = {"proposer": {"kind": "step"}}
NOOP = {"proposer": {"kind": "noop"}}
BATCHES = {"mode": "batch"}
NO_TIMES = "nobody measures how long an answer of a batch took; take it out, or set execution.mode: direct"
AS_IT_STANDS = "A mapping that is meant as it stands is written {change: frozen, value: {…}}"

FINDINGS: list[tuple[dict[str, Any], str]] = [
    # configuration
    (
        {"configuration": {"p": _text("{{name}}")}, "target": _chat("{{factors.p}}"), "optimizer": MODEL},
        "configuration.p.value: placeholder {{name}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    (
        {"configuration": {"p": _text("{{factors.q}}")}, "target": _chat("x"), "optimizer": MODEL},
        "configuration.p.value: placeholder {{factors.q}} names no factor; known are p",
    ),
    (
        {"configuration": {"p": _text("{{factors.p}}")}, "target": _chat("x"), "optimizer": MODEL},
        "configuration.p.value: placeholder {{factors.p}} leads back to factor 'p'; break the circle",
    ),
    (
        {"configuration": {"p": _text("{{factors.q}}"), "q": "{{factors.p}}"}, "target": _chat("x"), "optimizer": MODEL},
        "configuration.p.value: placeholder {{factors.q}} leads back to factor 'p'; break the circle",
    ),
    (
        {"configuration": {"p": _text("x"), "q": "{{name}}"}, "target": _chat("{{factors.q}}"), "optimizer": MODEL},
        "configuration.q.value: placeholder {{name}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    (
        {"configuration": {"q": _choice("a", "a", "{{name}}")}, "target": _chat("{{factors.q}}")},
        "configuration.q.choices[1]: placeholder {{name}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    (
        {"configuration": {"p": _text("x"), "t": {"value": 0.5, "min": 0, "max": 1}}, "optimizer": MODEL, "target": _chat("x")},
        "configuration.t: looks like a factor that may change, but does not say how; add change: text or change: structured",
    ),
    (
        {"configuration": {"p": _text("x"), "t": {"value": "a", "chnage": "text"}}, "optimizer": MODEL, "target": _chat("x")},
        f"configuration.t.chnage: is not a known field; did you mean change? {AS_IT_STANDS}",
    ),
    (
        {"configuration": {"p": _text("x"), "t": {"value": 5, "type": "integer", "mim": 0, "max": 9}}}
        | {"optimizer": MODEL, "target": _chat("x")},
        f"configuration.t.mim: is not a known field; did you mean min? {AS_IT_STANDS}",
    ),
    (
        {"configuration": {"e\u0301": _text("x")}, "optimizer": MODEL, "target": _chat("x")},
        "configuration: factor 'e\u0301' is not written in Unicode form NFC; type its name anew",
    ),
    (
        {"configuration": {"j": {"value": 1, "change": "structured", "type": "json", "schema": {"type": "nope"}}}}
        | {"target": _chat("x"), "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "a:p"}}},
        "configuration.j.schema: is not a JSON Schema that can be used: type: 'nope' is not one of array, boolean, integer, "
        "null, number, object, string",
    ),
    (
        {"configuration": {"j": {"value": 1, "change": "structured", "type": "json", "schema": {"type": "string"}}}}
        | {"target": _chat("x"), "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "a:p"}}},
        "configuration.j.value: does not satisfy its schema: 1 is not of type 'string'",
    ),
    (
        {"configuration": {"j": {"value": 1, "change": "structured", "type": "json", "schema": {"$ref": "http://x.test/y"}}}}
        | {"target": _chat("x"), "optimizer": {"name": "refine", "proposer": {"kind": "python", "ref": "a:p"}}},
        "configuration.j.schema: is not a JSON Schema that can be used: $ref: 'http://x.test/y' is no part of this schema; "
        "write e.g. #/$defs/name",
    ),
    # target
    (
        {"target": _chat("{{input.q}} {{factors.nobody}}")},
        "target.messages[0].content: placeholder {{factors.nobody}} names no factor; known are prompt, temperature, model",
    ),
    ({"target": _chat("{{q}}")}, "target.messages[0].content: placeholder {{q}} is unknown; use {{input.…}} or {{factors.…}}"),
    (
        {"target": _chat("x", model="{{factors.llm}}")},
        "target.model: placeholder {{factors.llm}} names no factor; known are prompt, temperature, model",
    ),
    (
        {"target": _chat("x", parameters={"tools": [{"name": "{{tool}}"}]})},
        "target.parameters.tools[0].name: placeholder {{tool}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    # dataset
    (
        {"dataset": [{"input": {"q": 1}}, {"input": {"question": 1}}]},
        "dataset.items[1].input: has no 'q', which target.messages[0].content needs",
    ),
    ({"dataset": [{"input": "text"}]}, "dataset.items[0].input: has no 'q', which target.messages[0].content needs"),
    (
        {"target": _chat("{{input.q.deep}}"), "dataset": [{"input": {"q": {}}}]},
        "dataset.items[0].input: has no 'q.deep', which target.messages[0].content needs",
    ),
    # scoring
    ({"objective": "exakt"}, "objective.metric: no scorer is named 'exakt'; did you mean exact?"),
    ({"objective": "accuracy"}, "objective.metric: no scorer is named 'accuracy'; known are exact"),
    (
        {"objective": {"kind": "weighted", "components": [{"metric": "accuracy"}]}},
        "objective.components[0].metric: no scorer is named 'accuracy'; known are exact",
    ),
    (
        {"objective": {}, "scorers": [{"kind": "exact"}, {"kind": "regex"}]},
        "objective.metric: is missing, and there are several scores; name one of exact, regex",
    ),
    (
        {"objective": {}, "scorers": [{"kind": "json", "schema": {"type": 5}}]},
        "scorers[0].schema: is not a JSON Schema: type: 5 is not one of array, boolean, integer, null, number, object, string",
    ),
    # optimizer
    (
        {"optimizer": {**STEP, "factors": ["nobody", "temperature"]}},
        "optimizer.factors: 'nobody' is no factor; known are prompt, temperature, model",
    ),
    (
        {"optimizer": {**STEP, "factors": ["model", "temperature"]}},
        "optimizer.factors: 'model' is frozen; write it as {value: …, change: text} or change: structured",
    ),
    (
        {"configuration": {"p": "fixed"}, "target": _chat("x")},
        "configuration: every factor is frozen; let at least one change ({value: …, change: text})",
    ),
    (
        {"optimizer": {**MODEL, "factors": ["temperature"]}},
        "optimizer.proposer: kind model rewrites text, but no treated factor is text; use kind step or python",
    ),
    (
        {"optimizer": {**STEP, "factors": ["prompt"]}},
        "optimizer.proposer: kind step moves numbers, choices, orders and flags, but no treated factor is one with "
        "more than one value; widen one, or use kind model or python",
    ),
    (
        {"configuration": {"c": _choice("a", "a")}, "target": _chat("x")},
        "optimizer.proposer: kind step moves numbers, choices, orders and flags, but no treated factor is one with "
        "more than one value; widen one, or use kind model or python",
    ),
    (
        {
            "optimizer": {
                "name": "refine",
                "proposer": {"kind": "model", "model": "big", "template": "{{factor.value}} {{examples}}"},
            }
        },
        "optimizer.proposer.template: placeholder {{examples}} is unknown; "
        "known are {{texts}}, {{feedback}}, {{hall_of_fame}}, {{limits}}, {{form}}, {{factor.name}}, {{factor.value}}",
    ),
    # money
    (
        {"budget": {"cost": 5}},
        "prices: 'small' (configuration.model) has no price, and budget.cost is 5; "
        "add prices: {small: {input: …, output: …}} per million tokens, or drop budget.cost",
    ),
    (
        {"budget": {"cost": 0.5}, "optimizer": MODEL, "prices": {"small": {"input": 1, "output": 1}}},
        "prices: 'big' (optimizer.proposer.model) has no price, and budget.cost is 0.5; "
        "add prices: {big: {input: …, output: …}} per million tokens, or drop budget.cost",
    ),
    # batches
    (
        {"execution": BATCHES, "target": {"kind": "python", "ref": "a:t"}, "scorers": [{"kind": "python", "ref": "a:s"}]},
        "target: cannot be asked in batches, only a chat model can; set execution.mode: direct",
    ),
    (
        {"execution": BATCHES, "target": _chat("x", stream=True)},
        "target.stream: answers of a batch are not streamed; take it out, or set execution.mode: direct",
    ),
    (
        {"execution": BATCHES, "scorers": [{"kind": "exact"}, {"kind": "latency", "at_most": 5}], "objective": "exact"},
        f"scorers[1]: {NO_TIMES}",
    ),
    (
        {"execution": BATCHES, "judgement": {"constraints": ["p95 latency <= 800"]}},
        f"judgement.constraints[0]: {NO_TIMES}",
    ),
]


@pytest.mark.parametrize(("changes", "message"), FINDINGS, ids=[message[:60] for _, message in FINDINGS])
def test_what_is_wrong_is_said_once_with_field_and_fix(changes: dict[str, Any], message: str) -> None:
    assert check_request(request(**changes)) == [message]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer": MODEL},
        {"optimizer": NOOP, "configuration": {"p": "fixed"}, "target": _chat("x")},
        {"optimizer": NOOP, "configuration": {"p": {"value": 3, "charge": 5}}, "target": _chat("x")},
        {"optimizer": NOOP, "configuration": {"p": {"value": 3, "kind": "text"}}, "target": _chat("x")},
        {"optimizer": {**STEP, "factors": ["temperature"]}},
        {"objective": {"kind": "success_rate"}},
        {"objective": "anything", "scorers": [{"kind": "python", "ref": "a:s"}]},
        {"objective": {"kind": "weighted", "components": [{"metric": "exact"}, {"kind": "cost_efficiency"}]}},
        {"budget": {"cost": 5}, "prices": {"small": {"input": 1, "output": 1}}},
        {"target": {"kind": "python", "ref": "a:t"}, "dataset": [{"input": 1}]},
        {"dataset": {"path": "somewhere.jsonl"}},
        {"target": _chat("{{input.dot.ted}}"), "dataset": [{"input": {"dot.ted": 1}}]},
        {"target": _chat("{{input}}"), "dataset": [{"input": "plain"}]},
        {"configuration": {"input": _text("Say {{input}}")}, "target": _chat("{{factors.input}}"), "optimizer": MODEL},
        {"configuration": {"p": _text("x"), "unused": "{{not ours}}"}, "target": _chat("x"), "optimizer": MODEL},
        {
            "configuration": {"p": _text("x"), "m": {"value": 1, "note": "data"}},
            "target": _chat("x"),
            "optimizer": MODEL,
        },
        {
            "configuration": {"p": _text("x"), "m": {"change": "frozen", "value": {"value": 1}}},
            "target": _chat("x"),
            "optimizer": MODEL,
        },
    ],
)
def test_nothing_is_said_of_a_spec_that_is_right(changes: dict[str, Any]) -> None:
    assert check_request(request(**changes)) == []


def test_several_problems_are_told_together_in_the_order_of_the_spec() -> None:
    found = check_request(
        request(
            configuration={"p": _text("{{name}}")},
            target=_chat("{{q}}"),
            objective="accuracy",
            optimizer=STEP,
            budget={"cost": 1},
        )
    )
    assert [line.split(":")[0] for line in found] == [
        "configuration.p.value",
        "target.messages[0].content",
        "objective.metric",
        "optimizer.proposer",
        "prices",
    ]


@pytest.mark.parametrize(
    ("model", "used"),
    [
        ("{{factors.llm}}", [("configuration.llm", "a"), ("configuration.llm", "b")]),
        ("{{ factors.llm }}", [("configuration.llm", "a"), ("configuration.llm", "b")]),
        ("open/{{factors.llm}}", [("configuration.llm", "open/a"), ("configuration.llm", "open/b")]),
        ("plain", [("target.model", "plain")]),
    ],
)
def test_every_model_that_may_be_called_is_known(model: str, used: list[tuple[str, str]]) -> None:
    made = request(configuration={"llm": _choice("a", "a", "b")}, target=_chat("x", model=model), optimizer=MODEL)
    assert models_used(made) == [*used, ("optimizer.proposer.model", "big")]
