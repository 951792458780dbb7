"""Spans of calls: what they say, what they leave out, and which are made at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from activities.observation.call_observation import CallFacts
from activities.targets.faults import Refused
from tests.support.traced import Traced

ASKED = {"model": "m", "messages": [{"role": "user", "content": "the word is heliotrope"}], "temperature": 0.5, "stop": ["x"]}


def told_of_a_call(traced: Traced, answer: Any = "violet") -> dict[str, Any]:
    with (
        traced.activity(),
        traced.observation.of(CallFacts("chat", "run-1", "m", "https://models.example:8443/v1", request=ASKED)) as seen,
    ):
        seen.took(12, 0.25)
        seen.split, seen.finish_reason, seen.answer = (7, 5), "stop", answer
    return dict(traced.spans[0].attributes or {}) if traced.spans else {}


def test_a_span_says_what_was_asked_for_and_what_it_took() -> None:
    traced = Traced()
    assert told_of_a_call(traced) == {
        "ratchet.run_id": "run-1",
        "ratchet.call": "chat",
        "ratchet.outcome": "answered",
        "ratchet.tokens": 12,
        "ratchet.cost": 0.25,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ("stop",),
        "server.address": "models.example",
        "server.port": 8443,
    }
    [call, activity] = traced.spans
    assert (call.name, call.parent) == ("chat m", activity.context)


def test_texts_are_in_it_only_where_the_operator_wants_them() -> None:
    told = told_of_a_call(Traced(with_content=True), {"content": "violet"})
    assert "heliotrope" in told["gen_ai.input.messages"]
    assert json.loads(told["gen_ai.output.messages"]) == {"content": "violet"}


def test_of_an_error_its_class_is_left() -> None:
    traced = Traced()
    with (
        pytest.raises(Refused),
        traced.activity(),
        traced.observation.of(CallFacts("http", address="https://h.example/a/secret")),
    ):
        raise Refused("the answer was heliotrope", kind="http 404")
    call, activity = traced.spans
    assert (call.name, (call.attributes or {})["error.type"]) == ("call h.example", "http 404")
    assert [dict(event.attributes or {}) for event in activity.events] == [
        {"exception.type": "activities.targets.faults.Refused"}
    ]
    assert "heliotrope" not in call.to_json() + activity.to_json()


def test_a_run_that_is_not_traced_has_no_spans_of_calls() -> None:
    traced = Traced(ALWAYS_OFF)
    told_of_a_call(traced)
    assert traced.spans == []


def test_a_call_outside_of_any_trace_begins_none() -> None:
    traced = Traced()
    with traced.observation.of(CallFacts("chat", model="m")):
        pass
    assert traced.spans == []


@pytest.mark.parametrize(("share", "fewest", "most"), [(0.0, 0, 0), (0.5, 60, 140), (1.0, 200, 200)])
def test_a_share_of_the_calls_is_enough(share: float, fewest: int, most: int) -> None:
    traced = Traced(share=share)
    with traced.activity():
        for _ in range(200):
            with traced.observation.of(CallFacts("python", plugin="mine:target")):
                pass
    assert fewest <= len([span for span in traced.spans if span.name == "call mine:target"]) <= most


def test_an_endpoint_is_told_which_span_it_is_part_of() -> None:
    traced = Traced()
    with traced.activity(), traced.observation.of(CallFacts("http", address="https://h.example")) as seen:
        headers = seen.headers
    call = traced.spans[0].context
    assert call is not None
    assert headers == {"traceparent": f"00-{call.trace_id:032x}-{call.span_id:016x}-{call.trace_flags:02x}"}
