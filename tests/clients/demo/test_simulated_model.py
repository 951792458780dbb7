"""The simulated model server, asked as everybody asks it: over HTTP, with the real OpenAI client."""

import asyncio
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import openai
import pytest
from openai import AsyncOpenAI

from clients.demo import SimulatedModel, request_key, simulated_model
from clients.demo.models import ECHO, EMBEDDING, REFLECTOR, TRIAGE_LARGE, TRIAGE_SMALL
from clients.demo.tickets import LABELS
from tests.support.model_client import client_of, content, say

ROOT = Path(__file__).parents[3]


class TestProtocol:
    async def test_a_plain_answer_has_the_openai_shape_and_counts_tokens(self, client: AsyncOpenAI) -> None:
        answer = await say(client, "What is on the menu today?")
        assert answer.object == "chat.completion"
        assert answer.model == ECHO
        assert answer.system_fingerprint == "fp_simulated_7"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.choices[0].message.content == "What is on the menu today?"
        assert answer.usage.completion_tokens == 7
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + 7

    async def test_a_streamed_answer_says_the_same_and_ends_with_usage(self, client: AsyncOpenAI) -> None:
        stream = await say(client, "one  two three", stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one  two three"
        assert len(chunks) > 4
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage.completion_tokens == 3
        assert all(chunk.usage is None for chunk in chunks[:-1])

    async def test_usage_is_streamed_only_on_demand(self, client: AsyncOpenAI) -> None:
        chunks = [chunk async for chunk in await say(client, "one two", stream=True)]
        assert all(chunk.usage is None and chunk.choices for chunk in chunks)

    async def test_a_token_limit_and_a_stop_string_end_the_answer(self, client: AsyncOpenAI) -> None:
        cut = (await say(client, "one two three four", max_tokens=2)).choices[0]
        assert (cut.message.content, cut.finish_reason) == ("one two", "length")
        assert await content(client, "one two three four", stop="three") == "one two "

    async def test_json_answers_are_valid_by_their_schema(self, client: AsyncOpenAI) -> None:
        schema = {
            "type": "object",
            "properties": {
                "label": {"enum": list(LABELS)},
                "reason": {"type": "string", "maxLength": 20},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 2},
                "parent": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
            },
            "required": ["label", "reason", "confidence", "tags", "parent"],
            "additionalProperties": False,
            "$defs": {"tag": {"type": "string"}},
        }
        asked = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
        answer = json.loads(await content(client, "Where is my parcel?", model=TRIAGE_SMALL, response_format=asked))
        jsonschema.validate(answer, schema)
        loose = await content(client, "hello", response_format={"type": "json_object"})
        assert json.loads(loose) == {"answer": "hello"}

    async def test_a_tool_is_called_if_forced_or_mentioned_and_otherwise_not(self, client: AsyncOpenAI) -> None:
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
        forced = (await say(client, "Oslo", tools=tools, tool_choice="required")).choices[0]
        assert forced.finish_reason == "tool_calls"
        assert json.loads(forced.message.tool_calls[0].function.arguments) == {"city": "Oslo"}
        mentioned = (await say(client, "please use get_weather", tools=tools)).choices[0]
        assert mentioned.message.tool_calls[0].function.name == "get_weather"
        streamed = [chunk async for chunk in await say(client, "use get_weather", tools=tools, stream=True)]
        assert streamed[1].choices[0].delta.tool_calls[0].function.name == "get_weather"
        assert (await say(client, "Oslo", tools=tools)).choices[0].message.tool_calls is None

    async def test_everything_that_names_the_server_says_simulated(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        models = [model async for model in client.models.list()]
        assert {TRIAGE_SMALL, TRIAGE_LARGE, REFLECTOR, EMBEDDING} <= {model.id for model in models}
        assert all(model.id.startswith("simulated-") and model.owned_by == "ratchet-simulated" for model in models)
        async with aiohttp.ClientSession() as session, session.get(f"{server.base_url}/models") as response:
            assert response.headers["Server"] == "ratchet-simulated/1"

    async def test_embeddings_are_unit_vectors_that_bring_similar_texts_together(self, client: AsyncOpenAI) -> None:
        texts = ["my parcel is late", "my parcel is very late", "the app crashes on start"]
        vectors = [one.embedding for one in (await client.embeddings.create(model=EMBEDDING, input=texts)).data]
        assert all(math.isclose(sum(x * x for x in vector), 1.0, rel_tol=1e-5) for vector in vectors)
        near, far = (sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:])
        assert near > far
        small = await client.embeddings.create(model=EMBEDDING, input="x", dimensions=8, encoding_format="float")
        assert len(small.data[0].embedding) == 8

    async def test_errors_have_the_openai_shape(self, client: AsyncOpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as unknown:
            await say(client, "hi", model="gpt-unknown")
        assert unknown.value.code == "model_not_found"
        assert unknown.value.param == "model"
        mistakes: list[dict[str, Any]] = [{"messages": []}, {"temperature": 9}, {"n": 2}, {"messages": [{"role": "king"}]}]
        for wrong in mistakes:
            with pytest.raises(openai.BadRequestError) as malformed:
                await say(client, "hi", **wrong)
            assert malformed.value.type == "invalid_request_error"
            assert str(malformed.value.param).startswith(next(iter(wrong)))
        with pytest.raises(openai.NotFoundError):
            await client.post("/nowhere", cast_to=object)

    async def test_a_body_that_is_no_json_is_a_bad_request(self, server: SimulatedModel) -> None:
        async with aiohttp.ClientSession() as session:
            for body in (b"{", b"[]", b"\xff\xfe", b"null"):
                async with session.post(f"{server.base_url}/chat/completions", data=body) as response:
                    assert response.status == 400
                    assert (await response.json())["error"]["type"] == "invalid_request_error"

    async def test_a_required_key_keeps_other_keys_out(self) -> None:
        async with simulated_model(required_key="right") as server:
            async with client_of(server) as stranger:
                with pytest.raises(openai.AuthenticationError) as refused:
                    await say(stranger, "hi")
                assert refused.value.code == "invalid_api_key"
            async with client_of(server, api_key="right") as friend:
                assert await content(friend, "hi") == "hi"


class TestControl:
    async def test_failures_come_as_often_as_told(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        server.simulate({"fail": {"status": 500, "first": 2}}, {"status": 429, "retry_after": "2", "every": 3})
        seen: list[Any] = []
        for _ in range(6):
            try:
                await say(client, "hi")
                seen.append(200)
            except openai.APIStatusError as error:
                seen.append((error.status_code, error.response.headers.get("Retry-After")))
        assert seen == [(500, None), (500, None), 200, 200, (429, "2"), 200]
        assert server.stats()["by_status"] == {"500": 2, "200": 3, "429": 1}

    async def test_a_rate_limit_really_throttles_and_says_how_long(self) -> None:
        async with simulated_model(requests_per_second=5) as server, client_of(server) as client:
            answers = await asyncio.gather(*(say(client, "hi") for _ in range(9)), return_exceptions=True)
            refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
            assert len(refused) == 4
            assert refused[0].response.headers["Retry-After"] == "1"
            assert 0 < int(refused[0].response.headers["retry-after-ms"]) <= 200
        async with simulated_model(requests_per_second=20) as server, client_of(server, max_retries=5) as client:
            await asyncio.gather(*(say(client, "hi") for _ in range(25)))
            assert server.stats()["by_status"]["200"] == 25

    async def test_a_stalled_request_stays_in_flight_until_the_client_gives_up(
        self, server: SimulatedModel, client: AsyncOpenAI
    ) -> None:
        server.simulate({"stall": True, "times": 1})
        with pytest.raises(openai.APITimeoutError):
            await say(client, "hi", timeout=0.1)
        assert await content(client, "hi") == "hi"
        await server.idle()
        assert server.stats()["in_flight"] == 0
        assert server.stats()["by_status"] == {"aborted": 1, "200": 1}
        server.simulate({"stall": 0.05})
        assert await content(client, "late") == "late"

    async def test_a_stream_can_stall_or_break_midway(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        for rule in ({"stall": True, "after_chunks": 2}, {"disconnect": True, "after_chunks": 2}):
            server.reset()
            server.simulate(rule)
            stream = aiter(await say(client, "one two three four", stream=True, timeout=0.2))
            assert [(await anext(stream)).choices[0].delta.content for _ in range(2)] == ["", "one"]
            with pytest.raises(openai.APIConnectionError):
                await anext(stream)
        await server.idle()
        assert server.stats()["by_status"] == {"aborted": 1}

    async def test_a_disconnect_leaves_no_answer(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        server.simulate({"disconnect": True, "first": 1})
        with pytest.raises(openai.APIConnectionError):
            await say(client, "hi")
        assert await content(client, "hi") == "hi"

    @pytest.mark.parametrize("lie", ["empty_choices", "wrong_model", "nan_usage", "no_usage", "null_content"])
    async def test_lies_within_a_well_formed_answer(self, server: SimulatedModel, client: AsyncOpenAI, lie: str) -> None:
        def is_told(answer: Any) -> bool:
            told: dict[str, Callable[[], Any]] = {
                "empty_choices": lambda: answer.choices == [],
                "wrong_model": lambda: answer.model == "simulated-impostor",
                "nan_usage": lambda: answer.usage and math.isnan(answer.usage.total_tokens),
                "no_usage": lambda: answer.usage is None,
                "null_content": lambda: answer.choices[0].message.content is None,
            }
            return bool(told[lie]())

        assert not is_told(await say(client, "hi"))
        server.simulate({"lie": lie})
        assert is_told(await say(client, "hi"))
        assert server.stats()["answered"] == {request_key(ECHO, [{"role": "user", "content": "hi"}]): 1}

    async def test_a_malformed_or_truncated_body_cannot_be_read(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        for lie in ("malformed_json", "truncated_stream"):
            server.reset()
            server.simulate({"lie": lie})
            with pytest.raises((openai.APIError, ValueError)):
                await say(client, "hi")

    async def test_a_truncated_stream_ends_without_a_finish_reason(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        server.simulate({"lie": "truncated_stream"})
        chunks = [chunk async for chunk in await say(client, "one two three four", stream=True)]
        assert chunks
        assert all(chunk.choices[0].finish_reason is None for chunk in chunks)

    async def test_latency_is_slept_and_jitter_is_seeded(self) -> None:
        loop = asyncio.get_running_loop()
        async with simulated_model(latency_ms=40, jitter=0.5) as server, client_of(server) as client:
            began = loop.time()
            await asyncio.gather(*(say(client, "hi") for _ in range(20)))
            assert 0.02 <= loop.time() - began < 0.5
            assert server.stats()["max_concurrent"] == 20

    async def test_a_header_rules_its_own_requests_only(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        told = {"X-Simulate": json.dumps({"status": 503, "first": 1})}
        with pytest.raises(openai.InternalServerError):
            await say(client, "hi", extra_headers=told)
        assert await content(client, "hi") == "hi"
        assert await content(client, "hi", extra_headers=told) == "hi"
        with pytest.raises(openai.BadRequestError):
            await say(client, "hi", extra_headers={"X-Simulate": '{"explode": true}'})

    async def test_rules_can_be_limited_to_a_model_a_text_and_a_chance(
        self, server: SimulatedModel, client: AsyncOpenAI
    ) -> None:
        server.simulate({"status": 500, "model": REFLECTOR}, {"status": 500, "contains": "poison"})
        assert await content(client, "hi") == "hi"
        for told in ({"text": "hi", "model": REFLECTOR}, {"text": "some poison"}):
            with pytest.raises(openai.InternalServerError):
                await say(client, **told)
        outcomes = []
        for _ in range(2):
            server.reset()
            server.simulate({"status": 500, "probability": 0.5, "seed": 3})
            answers = [await asyncio.gather(say(client, "hi"), return_exceptions=True) for _ in range(20)]
            outcomes.append([isinstance(answer[0], Exception) for answer in answers])
        assert outcomes[0] == outcomes[1]
        assert 4 <= sum(outcomes[0]) <= 16

    async def test_control_and_counts_over_http(self, server: SimulatedModel, client: AsyncOpenAI) -> None:
        control = f"{server.url}/simulate"
        async with aiohttp.ClientSession() as session:
            async with session.post(control, json={"fail": 500, "times": 1}) as response:
                assert (await response.json())["rules"] == [{"status": 500, "times": 1, "seen": 0, "fired": 0}]
            async with session.post(control, json={"rules": [{"status": 503, "times": 1}]}) as response:
                assert [rule["status"] for rule in (await response.json())["rules"]] == [503]
            for wrong in ({"status": 500, "stall": 1}, {"first": 1}, {"lie": "unanswered of"}, {"status": 200}):
                async with session.post(control, json=wrong) as response:
                    assert response.status == 400
            with pytest.raises(openai.InternalServerError):
                await say(client, "hi")
            for text in ("hi", "hi", "ho"):
                await say(client, text)
            async with session.get(f"{control}/stats") as response:
                stats = await response.json()
            assert stats == server.stats()
            key = request_key(ECHO, [{"role": "user", "content": "hi"}])
            assert (stats["calls"], stats["requests"][key], stats["answered"][key], stats["repeated"]) == (4, 3, 2, 1)
            async with session.delete(control) as response:
                assert (await response.json()) == {"rules": []}
        assert server.calls == 0


class TestProcess:
    async def start(self, stdin: int) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "clients.demo", "--latency-ms", "0",
            cwd=ROOT, stdin=stdin, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert process.stdout is not None
        return process, json.loads(await process.stdout.readline())

    async def test_it_announces_itself_serves_and_ends_on_sigterm(self) -> None:
        process, ready = await self.start(asyncio.subprocess.DEVNULL)
        assert ready["simulated"] is True
        async with AsyncOpenAI(base_url=ready["base_url"], api_key="any") as client:
            assert await content(client, "hi") == "hi"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 5) == 0

    async def test_it_ends_when_its_standard_input_is_closed(self) -> None:
        process, _ = await self.start(asyncio.subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 5) == 0
