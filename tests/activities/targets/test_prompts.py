"""What targets are handed of a prompt: messages with its examples, its tools, its parameters, and why it is missing."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from ratchet import Sample
from tests.support.activity_attempts import activity_environment
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.measured_runs import MeasuredRun, evaluation
from tests.support.prompted_specs import TEMPLATE, read
from tests.support.suite_building import plugin, scored_by, suite
from workflows.model.spec.targets.chat import ChatTarget
from workflows.model.spec.targets.python import PythonTarget
from workflows.model.suite import Outcome

pytestmark = pytest.mark.usefixtures("measured_runs")

SHOP = Sample("s0", {"shop": "Nile", "ticket": "{{factors.tone}}?"}, "ok")


async def outcome_of(target: Any, sample: Sample = SHOP, *, attempt: int = 1, **environment: str) -> Outcome:
    run = MeasuredRun(suite(target, prompt=TEMPLATE, scorers=scored_by("fine")), [sample], read().baseline)
    async with evaluation(run, environment=environment) as evaluating:
        await activity_environment(attempt=attempt).run(evaluating.evaluate_shard, run.shard(1))
    return (await run.by_sample())[sample.id]


def answered(asked: Asked) -> web.Response:
    message = {"role": "assistant", "content": "ok"}
    return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}})


async def test_a_chat_model_gets_messages_tools_and_parameters() -> None:
    messages = [{"splice": "{{factors.messages}}"}, {"role": "user", "content": "{{input.ticket}}"}]
    async with json_endpoint(answered) as endpoint:
        target = ChatTarget.model_validate({"kind": "chat", "messages": messages, "base_url": endpoint.origin})
        assert (await outcome_of(target, OPENAI_API_KEY="none")).output == "ok"
    [asked] = endpoint.asked
    assert asked.body["messages"] == [
        {"role": "system", "content": "You sort tickets of Nile.\n\nStay kind. Read You sort tickets of Nile."},
        {"role": "user", "content": "Late"},
        {"role": "assistant", "content": "shipping"},
        {"role": "user", "content": "{{factors.tone}}?"},
    ]
    assert [tool["function"]["description"] for tool in asked.body["tools"]] == ["Finds an order of Nile."]
    assert (asked.body["model"], asked.body["temperature"]) == ("small", 0.25)


@pytest.mark.parametrize(("pool", "attempt"), [("thread", 1), ("process", 1), ("thread", 3)])
async def test_a_python_target_that_asks_for_a_prompt_it_cannot_have_is_told_why(pool: str, attempt: int) -> None:
    target = PythonTarget.model_validate({"kind": "python", "ref": plugin("tells_its_prompt"), "pool": pool})
    assert (await outcome_of(target, attempt=attempt)).output == TEMPLATE.render(read().baseline, SHOP.input).text
    failed = await outcome_of(target, Sample("s0", {"ticket": "x"}, "ok"), attempt=attempt)
    assert failed.error is not None
    assert "prompt: cannot be rendered from this sample's input alone: placeholder {{input.shop}}" in failed.error


async def test_a_target_that_shows_the_prompt_fails_a_sample_that_it_cannot_be_rendered_for() -> None:
    messages = [{"role": "system", "content": "{{factors.prompt}}"}]
    async with json_endpoint(answered) as endpoint:
        target = ChatTarget.model_validate({"kind": "chat", "messages": messages, "base_url": endpoint.origin})
        failed = await outcome_of(target, Sample("s0", {"ticket": "x"}, "ok"), OPENAI_API_KEY="none")
    assert (failed.status, failed.error_class, endpoint.asked) == ("failed", "placeholder", [])
    assert "placeholder {{input.shop}} names nothing known; known are {{input.ticket}}" in (failed.error or "")
