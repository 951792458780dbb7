"""The model for tests, asked as everybody asks one: with the real OpenAI client, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from ratchet.testing import FakeModel, FakeRequest, ToolCall, fake_model


def client_of(model: FakeModel, **options: Any) -> OpenAI:
    return OpenAI(**{"base_url": model.url, "api_key": "any", "max_retries": 0, "timeout": 10.0, **options})


def ask(client: OpenAI, text: str, **options: Any) -> Any:
    asked: list[Any] = [{"role": "system", "content": "Sort."}, {"role": "user", "content": text}]
    return client.chat.completions.create(**{"model": "any-model", "messages": asked, **options})


def said(client: OpenAI, text: str) -> str:
    return str(ask(client, text).choices[0].message.content)


def test_it_answers_by_a_text_by_what_is_asked_or_by_a_function() -> None:
    with fake_model("billing") as model:
        assert said(client_of(model), "Where is my money?") == "billing"
        streamed = ask(client_of(model), "Again?", stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == "billing"
        assert len(client_of(model).embeddings.create(model="any", input="x", dimensions=8).data[0].embedding) == 8
    with fake_model({"money": "billing", "crash": "bug"}) as model:
        client = client_of(model)
        assert [said(client, text) for text in ("a crash", "my money")] == ["bug", "billing"]
        with pytest.raises(openai.BadRequestError, match="none of the texts of its reply is in this request: money, crash"):
            said(client, "else")

    def reply(request: FakeRequest) -> Any:
        if request.last == "raise":
            raise LookupError("no such ticket")
        return ToolCall("find", {"n": 1}) if request.body.get("tools") else {"label": request.last, "all": request.text}

    with fake_model(reply) as model:
        client = client_of(model)
        assert json.loads(said(client, "bug")) == {"label": "bug", "all": "Sort.\nbug"}
        tools = [{"type": "function", "function": {"name": "find"}}]
        called = ask(client, "which?", tools=tools).choices[0].message.tool_calls[0].function
        assert (called.name, json.loads(called.arguments)) == ("find", {"n": 1})
        with pytest.raises(openai.InternalServerError, match="its reply raised LookupError: no such ticket"):
            said(client, "raise")
        assert [(call.status, call.reply is None) for call in model.calls] == [(200, False), (200, True), (500, True)]
        assert model.calls[0].request is not None
        assert model.calls[0].request.messages[0] == {"role": "system", "content": "Sort."}


def test_it_throttles_fails_lies_and_cuts_connections_as_it_is_told() -> None:
    with fake_model(key="right") as model:
        with pytest.raises(openai.AuthenticationError):
            said(client_of(model), "x")
        client = client_of(model, api_key="right")
        model.fail(503, "busy", retry_after="7", first=1)
        with pytest.raises(openai.InternalServerError, match="busy") as failed:
            said(client, "x")
        assert failed.value.response.headers["Retry-After"] == "7"
        model.disconnect(contains="cut")
        with pytest.raises(openai.APIConnectionError):
            said(client, "cut this")
        model.lie("null_content", contains="nothing")
        assert ask(client, "nothing").choices[0].message.content is None
        model.throttle(0.001, burst=1, model="slow")
        ask(client, "x", model="slow")
        with pytest.raises(openai.RateLimitError):
            ask(client, "x", model="slow")
        assert [call.status for call in model.calls] == [401, 503, None, 200, 200, 429]
        model.reset()
        assert model.calls == []
        assert said(client, "cut this") == "ok"


async def test_it_serves_many_at_once_also_a_test_that_has_a_loop() -> None:
    together = asyncio.Barrier(4)

    async def reply(_: FakeRequest) -> str:
        await asyncio.sleep(0)
        return "yes"

    with fake_model(reply) as model:
        model.stall(contains="silence")
        client = AsyncOpenAI(base_url=model.url, api_key="any", max_retries=0)

        async def answered() -> str | None:
            await together.wait()
            asked = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
            return asked.choices[0].message.content

        assert await asyncio.gather(*(answered() for _ in range(4))) == ["yes"] * 4
        asking = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "silence"}])
        silent = asyncio.create_task(asking)
        while len(model.calls) < 5:
            await asyncio.sleep(0.01)
        assert model.calls[-1].status is None
        silent.cancel()
        assert 1 <= model.most_at_once <= 4
    assert len(model.calls) == 5
    assert repr(model).endswith(", 5 calls>")
    with pytest.raises(openai.APIConnectionError):
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
