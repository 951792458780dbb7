"""What can be wrong with the texts of chains and of HTTP targets, and which models they may call."""

from __future__ import annotations

from typing import Any

import pytest

from ratchet._text.placeholders import UnknownPlaceholder, fill, step_answer_of, whole_placeholder
from tests.support.spec_building import request
from workflows.rules.spec.check import check_request, models_used

NOOP = {"proposer": {"kind": "noop"}}


def _step(name: str, content: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "messages": [{"role": "user", "content": content}], **more}


def _chain(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"target": {"kind": "chat", "steps": list(steps), **more}}


def _http(**more: Any) -> dict[str, Any]:
    return {"target": {"kind": "http", "url": "http://localhost:1/x", **more}}


def _splice(splice: str, **item: Any) -> dict[str, Any]:
    return {
        "target": {"kind": "chat", "messages": [{"splice": splice}]},
        "dataset": [{"input": {"q": "x", "turns": [{"role": "user", "content": "hi"}], **item}}],
    }


FINDINGS: list[tuple[dict[str, Any], str]] = [
    (
        _chain(_step("a", "{{steps.b}}"), _step("b", "x")),
        "target.steps[0].messages[0].content: placeholder {{steps.b}} names no earlier step; "
        "known are none, since no step comes before this one",
    ),
    (
        _chain(_step("a", "x"), _step("b", "{{steps.b}} {{steps.a}}")),
        "target.steps[1].messages[0].content: placeholder {{steps.b}} names no earlier step; known are a",
    ),
    (
        _chain(_step("a", "x"), output={"c": "{{steps.c}}"}),
        "target.output.c: placeholder {{steps.c}} names no earlier step; known are a",
    ),
    (
        _chain(_step("a", "x", parameters={"top_p": "{{factors.p}}"})),
        "target.steps[0].parameters.top_p: placeholder {{factors.p}} names no factor; known are prompt, temperature, model",
    ),
    (
        _chain(_step("a", "x", model="{{factors.llm}}")),
        "target.steps[0].model: placeholder {{factors.llm}} names no factor; known are prompt, temperature, model",
    ),
    (
        _chain(_step("a", "{{input.other}}")),
        "dataset.items[0].input: has no 'other', which target.steps[0].messages[0].content needs",
    ),
    (
        {"configuration": {"p": {"value": "{{steps.a}}", "change": "text"}}, **_chain(_step("a", "x"), _step("b", "y"))},
        "configuration.p.value: placeholder {{steps.a}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    (
        {"target": {"kind": "chat", "messages": [{"role": "user", "content": "{{steps.a}}"}]}},
        "target.messages[0].content: placeholder {{steps.a}} is unknown; use {{input.…}} or {{factors.…}}",
    ),
    (_splice("{{input.nothing}}"), "dataset.items[0].input: has no 'nothing', which target.messages[0].splice needs"),
    (
        _splice("{{input.q}}"),
        "dataset.items[0]: {{input.q}}, which target.messages[0].splice needs, is no list of messages; "
        "give [{role: user, content: …}, …]",
    ),
    (
        _splice("{{input.turns}}", turns=[{"role": "user", "content": "x"}, {"role": "me", "content": "y"}]),
        "dataset.items[0]: {{input.turns}}, which target.messages[0].splice needs, [1] is no message; "
        "give {role: …, content: …}, with a role of system, user, assistant, developer, tool, function",
    ),
    (_http(body={"a": ["{{q}}"]}), "target.body.a[0]: placeholder {{q}} is unknown; use {{input.…}} or {{factors.…}}"),
    (_http(body="all {{factors}}"), "target.body: placeholder {{factors}} is unknown; use {{input.…}} or {{factors.…}}"),
    (
        _http(headers={"X-A": "{{factors.b}}"}),
        "target.headers.X-A: placeholder {{factors.b}} names no factor; known are prompt, temperature, model",
    ),
    (_http(body={"q": "{{input.q"}), "target.body.q: placeholder {{input.q is not closed; write {{input.q}}"),
    (
        _http(headers={"X-A": "<{{ factors.p }>"}),
        "target.headers.X-A: placeholder {{factors.p is not closed; write {{factors.p}}",
    ),
    (
        {**_http(), "scorers": [{"kind": "reported", "name": "exact"}]},
        "scorers[0]: takes scores that the target gives its answers, and this one gives none; set target.response.scores",
    ),
    (
        {**_chain(_step("a", "x")), "scorers": [{"kind": "reported", "name": "exact"}]},
        "scorers[0]: takes scores that the target gives its answers, and this one gives none; use rubric, or python",
    ),
    (_http(url="http://h/{{input.id}}"), "dataset.items[0].input: has no 'id', which target.url needs"),
]


EXAMPLES = {"change": "structured", "type": "json", "schema": {"type": "array"}}
SHOWING = [{"splice": "{{factors.examples}}"}, {"role": "user", "content": "{{input.q}}?"}]


def _shows(messages: list[dict[str, str]], *examples: dict[str, Any]) -> dict[str, Any]:
    factors = {"prompt": {"value": "Do.", "change": "text"}, "model": "m", "examples": {"value": list(examples), **EXAMPLES}}
    return {"target": {"kind": "chat", "messages": messages}, "configuration": factors}


AS_TEXT = [{"role": "user", "content": "{{factors.examples}}\n{{input.q}}?"}]
UNLIKE_THE_SAMPLES = (
    "configuration: placeholder {{input.q}} of the live message is not in the input of factors.examples[0]; "
    "give examples the form of samples"
)
FINDINGS += [(_shows(messages, {"input": "x", "output": "y"}), UNLIKE_THE_SAMPLES) for messages in (SHOWING, AS_TEXT)]


@pytest.mark.parametrize(("changes", "finding"), FINDINGS)
def test_a_text_that_cannot_be_filled_is_found_before_anything_is_paid(changes: dict[str, Any], finding: str) -> None:
    assert finding in check_request(request(optimizer=NOOP, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        _chain(_step("a", "{{factors.prompt}}"), _step("b", "{{steps.a}} {{steps.a.key}}"), output="{{steps.b}}"),
        _splice("{{input.turns}}"),
        _shows(SHOWING),
        _shows(SHOWING, {"input": {"q": "x"}, "output": "y"}),
        _shows(AS_TEXT, {"input": {"q": "x"}, "output": "y"}),
        _http(),
        _http(body={"all": "{{factors}}", "q": "{{input.q}}"}),
        _http(method="GET", url="http://h/{{input.q}}"),
        {**_http(response={"scores": "grades"}), "scorers": [{"kind": "reported", "name": "exact"}]},
        _http(body="{{inputs {{{input.q}}} {{ input.q }} \\frac{{x}{y}} {{"),
    ],
)
def test_nothing_is_said_of_one_that_can(changes: dict[str, Any]) -> None:
    assert check_request(request(optimizer=NOOP, **changes)) == []


def test_every_step_of_a_chain_may_call_a_model_of_its_own() -> None:
    made = request(optimizer=NOOP, **_chain(_step("a", "x", model="large"), _step("b", "x"), _step("c", "x", model="large")))
    assert models_used(made) == [
        ("configuration.model", "small"),
        ("target.steps[0].model", "large"),
        ("target.steps[2].model", "large"),
    ]


def test_a_chain_whose_steps_all_name_a_model_calls_no_other() -> None:
    made = request(optimizer=NOOP, **_chain(_step("a", "x", model="large")))
    assert models_used(made) == [("target.steps[0].model", "large")]


@pytest.mark.parametrize(
    ("text", "name"),
    [("{{input}}", "input"), (" {{ factors.a }} ", "factors.a"), ("{{a}}{{b}}", None), ("x{{a}}", None), ("", None)],
)
def test_a_whole_placeholder_is_one_and_nothing_else(text: str, name: str | None) -> None:
    assert whole_placeholder(text) == name


def test_whole_placeholders_keep_the_type_of_what_they_name() -> None:
    factors = {"n": 3, "none": None, "list": [1, "{{input.a}}"], "text": "<{{input.a}}>"}
    given = {"a": {"b": [True]}}
    template = {"n": "{{factors.n}}", "none": ["{{factors.none}}"], "list": "{{factors.list}}", "text": "{{factors.text}}"}
    assert fill(template, factors, given) == {
        "n": 3,
        "none": [None],
        "list": [1, "{{input.a}}"],
        "text": '<{"b":[true]}>',
    }
    assert fill(["{{input.a.b}}", "{{input}}", "{{factors}}", 1.5], factors, given) == [[True], given, factors, 1.5]


def test_a_part_of_a_steps_answer_is_read_from_its_json() -> None:
    answer = step_answer_of({"a": '{"b": {"c": 1}}', "d": {"e": "{{steps.a}}"}, "f": "no json"})
    assert answer("steps.a") == '{"b": {"c": 1}}'
    assert answer("steps.a.b.c") == 1
    assert answer("steps.d.e") == "{{steps.a}}"
    for unknown in ("steps.x", "steps.a.c", "steps.f.b", "steps.a.b.c.d"):
        with pytest.raises(UnknownPlaceholder):
            answer(unknown)
