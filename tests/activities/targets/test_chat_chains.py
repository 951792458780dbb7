"""Conversations, chains of prompts, tools and structured output, against real HTTP endpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from clients.demo.model_server import SimulatedModel
from ratchet import Sample
from ratchet._text.explanation import explain
from tests.support.activity_attempts import activity_environment
from tests.support.http_endpoints import Asked, Endpoint, json_endpoint
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.spec_building import request
from tests.support.suite_building import suite
from workflows.model.spec.prices import Price
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.chat import ChatTarget
from workflows.model.suite import Outcome
from workflows.model.trial import ShardResult

pytestmark = pytest.mark.usefixtures("measured_runs")

ECHO = "simulated-echo"
TURNS = [
    {"role": "user", "content": "My name is {{factors.prompt}}."},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
]
SAMPLE = Sample("s0", {"question": "Where is it?", "turns": TURNS, "one": {"role": "user"}, "none": []}, "x")


def chat(base_url: str, **more: Any) -> ChatTarget:
    if "steps" not in more:
        more.setdefault("messages", [{"role": "user", "content": "{{input.question}}"}])
    return ChatTarget.model_validate({"kind": "chat", "model": ECHO, "base_url": base_url, **more})


def step(name: str, content: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "messages": [{"role": "user", "content": content}], **more}


def run_for(target: ChatTarget, factors: dict[str, Any] | None = None, **more: Any) -> MeasuredRun:
    scorers = [ContainsScorer(kind="contains", values=[])]
    return MeasuredRun(suite(target, scorers=scorers, **more), [SAMPLE], factors or {"prompt": "Be brief."})


async def evaluated(run: MeasuredRun) -> ShardResult:
    async with evaluation(run) as evaluating:
        return await activity_environment().run(evaluating.evaluate_shard, run.shard(1))


async def outcome_of(target: ChatTarget, factors: dict[str, Any] | None = None, **more: Any) -> Outcome:
    run = run_for(target, factors, **more)
    await evaluated(run)
    return (await run.by_sample())["s0"]


def completions(*contents: Any) -> Callable[[Asked], web.Response]:
    """An endpoint that gives these answers one after another, for 10 tokens in and 5 out each."""
    left = list(contents)

    def answer(_: Asked) -> web.Response:
        given = left.pop(0)
        message = given if isinstance(given, dict) else {"role": "assistant", "content": given}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage})

    return answer


def base_url(endpoint: Endpoint) -> str:
    return f"{endpoint.origin}/v1"


class TestConversations:
    async def sent(self, messages: list[dict[str, Any]], factors: dict[str, Any] | None = None) -> Any:
        async with json_endpoint(completions("fine")) as endpoint:
            assert (await outcome_of(chat(base_url(endpoint), messages=messages), factors)).output == "fine"
        return endpoint.asked[0].body["messages"]

    async def test_a_samples_messages_are_spliced_in_as_they_are(self) -> None:
        system = {"role": "system", "content": "{{factors.prompt}}"}
        last = {"role": "user", "content": "{{input.question}}"}
        messages = await self.sent([system, {"splice": "{{ input.turns }}"}, last])
        assert messages == [
            {"role": "system", "content": "Be brief."},
            *TURNS,
            {"role": "user", "content": "Where is it?"},
        ]

    async def test_examples_may_come_from_a_factor(self) -> None:
        examples = [{"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"}]
        assert await self.sent([{"splice": "{{factors.examples}}"}], {"examples": examples}) == examples

    @pytest.mark.parametrize(
        ("place", "text"),
        [
            ("{{input.question}}", "{{input.question}} is no list of messages"),
            ("{{input.one}}", "{{input.one}} is no list of messages"),
            ("{{input.none}}", "{{input.none}} is no list of messages"),
            ("{{input.nothing}}", "placeholder {{input.nothing}} names nothing known"),
            ("{{factors.examples}}", "[0] is no message"),
            ("{{factors.silent}}", "[1] has no content"),
        ],
    )
    async def test_what_is_no_conversation_fails_its_sample_unpaid(self, place: str, text: str) -> None:
        silent = [{"role": "user", "content": "hm"}, {"role": "assistant"}]
        async with json_endpoint(completions("never")) as endpoint:
            target = chat(base_url(endpoint), messages=[{"splice": place}])
            outcome = await outcome_of(target, {"examples": [{"role": "boss", "content": "x"}], "silent": silent})
        assert (outcome.status, outcome.error_class) == ("failed", "placeholder")
        assert text in (outcome.error or "")
        assert endpoint.asked == []


class TestChains:
    async def test_later_steps_see_the_answers_of_earlier_ones(self) -> None:
        steps = [step("draft", "{{input.question}}"), step("final", "Improve: {{steps.draft}} ({{factors.prompt}})")]
        async with json_endpoint(completions("At {{input.one}} home.", "At home!")) as endpoint:
            outcome = await outcome_of(chat(base_url(endpoint), steps=steps))
        assert outcome.output == "At home!"
        sent = [asked.body["messages"][0]["content"] for asked in endpoint.asked]
        assert sent == ["Where is it?", "Improve: At {{input.one}} home. (Be brief.)"]

    async def test_what_all_steps_took_adds_up_and_the_trace_keeps_each(self) -> None:
        steps = [step("a", "1"), step("b", "2", model="other"), step("c", "3")]
        prices = {ECHO: Price(input=1.0, output=2.0), "other": Price(input=10.0, output=20.0)}
        async with json_endpoint(completions("x", "y", "z")) as endpoint:
            outcome = await outcome_of(chat(base_url(endpoint), steps=steps), prices=prices)
        assert outcome.tokens == 45
        assert outcome.cost == pytest.approx((20 + 200 + 20) / 1_000_000)
        kept = outcome.trace["steps"]
        assert [(one["name"], one["model"], one["output"], one["tokens"]) for one in kept] == [
            ("a", ECHO, "x", 15),
            ("b", "other", "y", 15),
            ("c", ECHO, "z", 15),
        ]
        assert outcome.latency_ms == pytest.approx(sum(one["latency_ms"] for one in kept))

    async def test_a_steps_parameters_win_over_the_targets_and_those_over_factors(self) -> None:
        steps = [step("a", "1"), step("b", "2", parameters={"temperature": 0.9, "n_best": "{{factors.best}}"})]
        factors = {"temperature": 0.1, "top_p": 0.5, "best": 3}
        async with json_endpoint(completions("x", "y")) as endpoint:
            await outcome_of(chat(base_url(endpoint), steps=steps, parameters={"temperature": 0.4}), factors)
        sent = [{key: asked.body.get(key) for key in ("temperature", "top_p", "n_best")} for asked in endpoint.asked]
        assert sent == [
            {"temperature": 0.4, "top_p": 0.5, "n_best": None},
            {"temperature": 0.9, "top_p": 0.5, "n_best": 3},
        ]

    async def test_a_step_may_route_the_next_one_by_a_part_of_its_json(self) -> None:
        steps = [step("route", "?"), step("expert", "{{steps.route.why.first}}", model="{{steps.route.model}}")]
        async with json_endpoint(completions('{"model": "law", "why": {"first": "a contract"}}', "ok")) as endpoint:
            await outcome_of(chat(base_url(endpoint), steps=steps))
        assert endpoint.asked[1].body["model"] == "law"
        assert endpoint.asked[1].body["messages"][0]["content"] == "a contract"

    async def test_the_output_may_be_made_of_several_steps(self) -> None:
        steps = [step("facts", "1"), step("answer", "2")]
        output = {"answer": "{{steps.answer}}", "facts": "{{steps.facts}}", "first": "{{steps.facts.list}}"}
        async with json_endpoint(completions('{"list": [1, 2]}', "yes")) as endpoint:
            outcome = await outcome_of(chat(base_url(endpoint), steps=steps, output=output))
        assert outcome.output == {"answer": "yes", "facts": '{"list": [1, 2]}', "first": [1, 2]}

    @pytest.mark.parametrize(
        ("answers", "output", "text"),
        [
            (("", "never"), None, "step facts: the model gave an empty answer"),
            (("no json", "never"), None, "step answer: placeholder {{steps.facts.key}}"),
            (('{"key": "k"}', "yes"), "{{steps.facts.other}}", "output: placeholder {{steps.facts.other}}"),
        ],
    )
    async def test_a_chain_that_breaks_has_cost_what_it_took_until_then(
        self, answers: tuple[str, ...], output: str | None, text: str
    ) -> None:
        steps = [step("facts", "1"), step("answer", "{{steps.facts.key}}")]
        async with json_endpoint(completions(*answers)) as endpoint:
            outcome = await outcome_of(chat(base_url(endpoint), steps=steps, output=output))
        assert outcome.status == "failed"
        assert text in (outcome.error or "")
        assert outcome.tokens == 15 * len(endpoint.asked)

    async def test_only_the_step_that_fails_is_tried_again(self, server: SimulatedModel) -> None:
        server.simulate({"status": 500, "contains": "second", "first": 2})
        outcome = await outcome_of(chat(server.base_url, steps=[step("a", "first"), step("b", "second {{steps.a}}")]))
        assert outcome.output == "second first"
        assert server.stats()["by_status"] == {"200": 2, "500": 2}

    async def test_the_sample_timeout_holds_for_each_step(self, server: SimulatedModel) -> None:
        server.simulate({"latency": {"mean_ms": 150}})
        target = chat(server.base_url, steps=[step(name, "x") for name in "abc"])
        outcome = await outcome_of(target, sample_timeout=timedelta(seconds=0.4))
        assert outcome.status == "answered"
        assert outcome.latency_ms is not None and outcome.latency_ms >= 450

    async def test_the_first_token_of_a_chain_is_that_of_its_last_step(self, server: SimulatedModel) -> None:
        server.simulate({"latency": {"mean_ms": 60}})
        outcome = await outcome_of(chat(server.base_url, steps=[step("a", "x y z"), step("b", "x y z")], stream=True))
        first, last = outcome.trace["steps"]
        assert outcome.ttft_ms is not None and outcome.latency_ms is not None
        assert first["latency_ms"] < outcome.ttft_ms < outcome.latency_ms
        assert outcome.latency_ms == pytest.approx(first["latency_ms"] + last["latency_ms"])


class TestToolsAndStructuredOutput:
    TOOLS = (
        {
            "type": "function",
            "function": {
                "name": "route",
                "parameters": {"type": "object", "properties": {"team": {"type": "string"}}, "required": ["team"]},
            },
        },
    )

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_tool_call_is_the_answer(self, server: SimulatedModel, stream: bool) -> None:
        factors = {"tools": list(self.TOOLS), "tool_choice": "required"}
        outcome = await outcome_of(chat(server.base_url, stream=stream), factors)
        assert outcome.output == {
            "content": None,
            "tool_calls": [{"name": "route", "arguments": {"team": "Where is it?"}}],
        }

    async def test_the_arguments_of_a_tool_call_reach_the_next_step(self, server: SimulatedModel) -> None:
        call = step("call", "{{input.question}}", parameters={"tools": list(self.TOOLS), "tool_choice": "required"})
        steps = [call, step("after", "Called with {{steps.call.tool_calls}}")]
        outcome = await outcome_of(chat(server.base_url, steps=steps))
        assert outcome.output == 'Called with [{"arguments":{"team":"Where is it?"},"name":"route"}]'

    async def test_structured_output_follows_its_schema(self, server: SimulatedModel) -> None:
        shape = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
        form = {"type": "json_schema", "json_schema": {"name": "label", "schema": shape}}
        outcome = await outcome_of(chat(server.base_url), {"response_format": form})
        assert json.loads(outcome.output) == {"label": "Where is it?"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "needs messages for one request, or steps for several"),
    ({"steps": [step("a", "x")], "messages": [{"role": "user", "content": "x"}]}, "give exactly one of the two"),
    ({"output": "{{input}}"}, "output belongs to steps"),
    ({"steps": [step("a", "x"), step("a", "y")]}, "two steps are named 'a'"),
    ({"steps": [step("a b", "x")]}, "steps[0].name: is no name for a step"),
    ({"steps": []}, "steps: is empty"),
    ({"steps": [{"name": "a", "messages": []}]}, "steps[0].messages: is empty"),
    ({"messages": [{"splice": "{{input.a}} {{input.b}}"}]}, "messages[0].splice: is not one placeholder and nothing else"),
    ({"messages": [{"splice": "{{input.a}}", "role": "user"}]}, "messages[0].role: is not a known field"),
    ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role: use one of"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG)
def test_a_target_that_makes_no_sense_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as raised:
        request(target={"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "x"}], **_replaced(wrong)})
    assert text in "\n".join(explain(raised.value))


def _replaced(wrong: dict[str, Any]) -> dict[str, Any]:
    """Steps instead of messages, unless both are given."""
    return {"messages": None, **wrong} if "steps" in wrong else wrong
