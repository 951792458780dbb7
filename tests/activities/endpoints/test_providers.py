"""Every provider is asked in its own protocol by its own SDK, and what it says means the same as with all others."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatAnswer, ChatModels
from activities.endpoints.embeddings import embed
from activities.endpoints.endpoint_policy import NO_KEY, NotListed
from activities.endpoints.gate import Gates
from activities.endpoints.providers.converse_content import request_of as bedrock_request
from activities.endpoints.retry_policy import Patience
from activities.preparing import extras
from activities.settings import MODEL_URLS
from activities.targets.faults import CandidateFault, Fault, NotSent, Refused, Throttled, Unreachable
from clients.checks.endpoints import check_endpoints
from tests.support.allowed import lists_of
from tests.support.anthropic_endpoint import AnthropicEndpoint
from tests.support.anthropic_endpoint import usage as anthropic_usage
from tests.support.bedrock_endpoint import CREDENTIALS, REGION, SECRET, BedrockEndpoint, converse
from tests.support.bedrock_endpoint import usage as bedrock_usage
from tests.support.gemini_endpoint import GeminiEndpoint
from tests.support.gemini_endpoint import usage as gemini_usage
from tests.support.model_endpoints import CACHED, FAULTS, THOUGHT, ModelEndpoint, OpenAiEndpoint, served
from tests.support.spec_building import request
from workflows.model.spec.prices import Price

KEY = "secret-of-4711-tests"
ONCE = Patience(seconds=-1.0, attempts=1, slow_attempts=1)
AGAIN = Patience(seconds=5.0, attempts=2, first_delay=0.01)
PRICE = Price(input=10, output=100, cached_input=1)
PROTOCOLS: dict[str, Callable[..., ModelEndpoint]] = {
    "openai": OpenAiEndpoint,
    "anthropic": AnthropicEndpoint,
    "google": GeminiEndpoint,
    "bedrock": BedrockEndpoint,
}
Told = dict[str, Any]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let boto3 find these."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def environment(provider: str, endpoint: ModelEndpoint) -> dict[str, str]:
    """An operator whose endpoint of this provider is that one."""
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    names = {
        "anthropic": "ANTHROPIC_BASE_URL",
        "google": "GOOGLE_GEMINI_BASE_URL",
        "bedrock": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    }
    if provider in names:
        return {**keys, "AWS_REGION": REGION, names[provider]: endpoint.url}
    return {**keys, "OPENAI_BASE_URL": f"{endpoint.url}/v1", MODEL_URLS: f"openai={endpoint.url}"}


@asynccontextmanager
async def asking(provider: str, patience: Patience = ONCE, **endpoint: Any) -> AsyncIterator[tuple[ModelEndpoint, ChatModels]]:
    async with served(PROTOCOLS[provider](**endpoint)) as there:
        models = ChatModels(Gates(), lists_of(environment(provider, there)), patience=patience)
        try:
            yield there, models
        finally:
            await models.close()


async def ask(models: ChatModels, provider: str, messages: list[Any] | None = None, **more: Any) -> ChatAnswer:
    given: dict[str, Any] = {"stream": False, "timeout": 2.0, "parameters": {}, **more}
    model = f"{provider}/simulated-echo"
    messages = messages or [{"role": "system", "content": "Repeat."}, {"role": "user", "content": "one two three"}]
    return await models.ask(
        base_url=None, model=model, messages=messages, prices={model: PRICE}, context=CallContext(), **given
    )


async def fault_of(provider: str, told: Any, *, streams: bool = False, **response: Any) -> Fault:
    """What it means that the endpoint answers this, whole or as the events of a stream."""

    async def answer(_: Told) -> web.StreamResponse:
        return web.Response(text=json.dumps(told), content_type="application/json", **response)

    async with asking(provider, answering=answer) as (_, models):
        with pytest.raises(Fault) as raised:
            await ask(models, provider, stream=streams)
        return raised.value


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_an_answer_and_what_it_took_are_the_same_in_every_protocol(provider: str, streams: bool) -> None:
    async with asking(provider) as (endpoint, models):
        answer = await ask(models, provider, stream=streams)
    bill = endpoint.bill
    assert (answer.value, answer.finish_reason, answer.split) == ("one two three", "stop", (bill.read, bill.written))
    thought = THOUGHT if endpoint.thinks_apart else 0
    assert (answer.tokens, answer.cached, answer.reasoning) == (bill.read + bill.written, CACHED, thought)
    assert answer.cost == pytest.approx(((bill.read - CACHED) * 10 + CACHED * 1 + bill.written * 100) / 1e6)
    assert (answer.ttft_ms is not None) == streams


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_trouble_on_the_way_is_no_answer_and_is_tried_again(provider: str, streams: bool) -> None:
    for fault in FAULTS:
        async with asking(provider, AGAIN, fault=fault, share=1.0) as (endpoint, models):
            answer = await ask(models, provider, stream=streams, timeout=0.5 if fault == "stalled" else 5.0)
            gate = models.gates.at(models.lists.model_place(f"{provider}/x", None).url, f"{provider}/simulated-echo")
        assert (answer.value, endpoint.bill.answers, len(endpoint.bodies)) == ("one two three", 1, 2), fault
        assert (gate.rate is not None) == (fault in ("throttled", "overloaded")), "throttling slows everybody down"


FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "developer", "content": "Be short."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        ],
    },
    {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": '{"at": "it"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
]
PARAMETERS = {
    "temperature": 0.5,
    "max_tokens": 99,
    "stop": "END",
    "seed": 7,
    "reasoning_effort": "low",
    "response_schema": SCHEMA,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "required",
    "top_k": 40,
}


async def sent(provider: str) -> Told:
    """What one request for all of this is on the wire."""
    async with asking(provider, answering=lambda _: web.json_response({})) as (endpoint, models):
        with pytest.raises(CandidateFault):
            await ask(models, provider, TALK, parameters=PARAMETERS)
    return endpoint.bodies[0]


async def test_a_request_becomes_one_for_messages() -> None:
    assert await sent("anthropic") == {
        "model": "simulated-echo",
        "max_tokens": 99,
        "temperature": 0.5,
        "top_k": 40,
        "stop_sequences": ["END"],
        "system": "Be kind.\n\nBe short.",
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        "tools": [{"name": "look", "description": "Looks.", "input_schema": FUNCTION["parameters"]}],
        "tool_choice": {"type": "any"},
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a cat"}]}],
            },
        ],
    }


async def test_a_request_becomes_one_for_contents() -> None:
    assert await sent("google") == {
        "systemInstruction": {"parts": [{"text": "Be kind.\n\nBe short."}]},
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 99,
            "topK": 40,
            "seed": 7,
            "stopSequences": ["END"],
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
            "thinkingConfig": {"thinkingLevel": "low"},
        },
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "look", "description": "Looks.", "parametersJsonSchema": FUNCTION["parameters"]}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look:"},
                    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}},
                ],
            },
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": "it"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "a cat"}}}]},
        ],
    }


async def test_a_request_becomes_one_for_converse() -> None:
    assert await sent("bedrock") == {
        "system": [{"text": "Be kind."}, {"text": "Be short."}],
        "inferenceConfig": {"maxTokens": 99, "temperature": 0.5, "stopSequences": ["END"]},
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": FUNCTION["parameters"]}}}],
            "toolChoice": {"any": {}},
        },
        "outputConfig": {
            "effort": "low",
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "answer"}},
            },
        },
        "additionalModelRequestFields": {"top_k": 40},
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "Look:"},
                    {"image": {"format": "png", "source": {"bytes": "aGk="}}},
                    {"document": {"format": "pdf", "name": "document 1", "source": {"bytes": "aGk="}}},
                ],
            },
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "it"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "a cat"}]}}]},
        ],
    }


@pytest.mark.parametrize(
    ("model", "effort", "held", "own"),
    [
        ("eu.anthropic.claude-x", "minimal", {"effort": "low"}, {"thinking": {"type": "adaptive"}}),
        ("eu.anthropic.claude-x", "none", None, {"thinking": {"type": "disabled"}}),
        ("amazon.nova-2", "high", None, {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        ("openai.gpt-oss", "high", None, {"reasoning_effort": "high"}),
        ("other", "none", None, None),
    ],
)
def test_reasoning_effort_is_said_in_the_words_of_the_models_maker(model: str, effort: str, held: Any, own: Any) -> None:
    made = bedrock_request({"model": model, "messages": [], "reasoning_effort": effort})
    assert (made.get("outputConfig"), made.get("additionalModelRequestFields")) == (held, own)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([{"type": "image_url", "image_url": {"url": "s3://others/secret.png"}}], "give the file itself"),
        ([{"image": {"format": "png", "source": {"s3Location": {"uri": "s3://others/secret.png"}}}}], "an object in S3"),
        ([{"type": "file", "file": {"file_data": "data:audio/wav;base64,aGk="}}], "no files of type audio/wav"),
        ([{"type": "file", "file": {"file_data": "data:image/png;base64,a"}}], "not in base64"),
        ([{"input_audio": {}}], "Unknown parameter"),
    ],
)
async def test_what_bedrock_cannot_be_sent_is_never_sent(content: Any, told: str) -> None:
    async with asking("bedrock") as (endpoint, models):
        with pytest.raises(NotSent, match=told):
            await ask(models, "bedrock", [{"role": "user", "content": content}])
    assert not endpoint.bodies


async def test_a_picture_that_only_google_does_not_take_is_never_sent_there() -> None:
    moving = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/gif;base64,aGk="}}]}]
    for provider in PROTOCOLS:
        async with asking(provider, answering=lambda _: web.json_response({})) as (endpoint, models):
            with pytest.raises(NotSent if provider == "google" else CandidateFault, match=r"image/png|no choices"):
                await ask(models, provider, moving)
            assert bool(endpoint.bodies) == (provider != "google")
            assert "aGk=" in str(endpoint.bodies) or provider == "google"


async def test_a_signature_holds_for_names_with_every_character() -> None:
    arn = "arn:aws:bedrock:eu-central-1:1:inference-profile/eu.m-v1:0"
    async with asking("bedrock", named={arn: "simulated-echo"}) as (endpoint, models):
        given: dict[str, Any] = {"base_url": None, "parameters": {}, "stream": False, "timeout": 5.0, "prices": {}}
        answer = await models.ask(
            model=f"bedrock/{arn}", messages=[{"role": "user", "content": "ü"}], context=CallContext(), **given
        )
        assert answer.value == "ü"
        async with aiohttp.ClientSession() as session, session.post(f"{endpoint.url}/model/m/converse", json={}) as refused:
            assert refused.status == 403, "the endpoint takes no request that nobody signed"


async def test_nobody_waits_in_a_thread_and_who_stops_waiting_lets_the_call_go() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def never(_: Told) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    async with asking("bedrock", answering=never) as (_, models):
        waiting = asyncio.create_task(ask(models, "bedrock", timeout=60.0))
        await begun.wait()
        made = [thread for thread in threading.enumerate() if thread.name.startswith("bedrock")]
        assert made
        async with asyncio.timeout(30):
            while not all(_is_idle(thread) for thread in made):
                await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await gone.wait()


def _is_idle(thread: threading.Thread) -> bool:
    assert thread.ident is not None
    return sys._current_frames()[thread.ident].f_code.co_name == "_worker"


async def test_without_credentials_nothing_is_sent_and_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    async with asking("bedrock") as (endpoint, models):
        with pytest.raises(Refused, match="Unable to locate credentials; give the worker's environment credentials"):
            await ask(models, "bedrock")
        for name, value in environment("bedrock", endpoint).items():
            monkeypatch.setenv(name, value)
        [problem] = await check_endpoints(asked_of("bedrock/simulated-echo"))
        assert "AWS_ACCESS_KEY_ID" in problem.message
    assert not endpoint.bodies


def message(*content: Told, stop: str = "end_turn", **more: Any) -> Told:
    return {"type": "message", "content": [*content], "stop_reason": stop, "usage": anthropic_usage(100, 10), **more}


def generated(*parts: Told, finish: str | None = "STOP", **more: Any) -> Told:
    return {
        "candidates": [{"content": {"parts": [*parts]}, "finishReason": finish}],
        "usageMetadata": gemini_usage(100, 10),
        **more,
    }


@pytest.mark.parametrize(
    ("provider", "told", "kind", "tokens"),
    [
        (
            "anthropic",
            message({"type": "text", "text": "I ca"}, stop="refusal", stop_details={"explanation": "no harm"}),
            "refusal",
            110,
        ),
        ("anthropic", message(stop="max_tokens"), "empty answer", 110),
        ("anthropic", message({"type": "text", "text": 5}), "unusable output", 110),
        ("anthropic", {"content": {"a": 1}, "usage": anthropic_usage(100, 10)}, "unusable output", 110),
        ("anthropic", {"usage": anthropic_usage(100, 10), "id": "x"}, "broken answer", 110),
        ("anthropic", [1], "broken answer", 0),
        ("anthropic", {"content": [], "usage": {"input_tokens": True, "output_tokens": -4}}, "empty answer", 0),
        ("bedrock", converse({"text": "I ca"}, stop="guardrail_intervened"), "content filter", 110),
        ("bedrock", converse({"text": "I ca"}, stop="content_filtered"), "content filter", 110),
        ("bedrock", converse(stop="max_tokens"), "empty answer", 110),
        ("bedrock", converse({"text": '{"a'}, stop="malformed_model_output"), "empty answer", 110),
        ("bedrock", converse({"text": 5}), "unusable output", 110),
        ("bedrock", {"output": {}, "usage": bedrock_usage(100, 10)}, "broken answer", 110),
        ("bedrock", {"output": {"message": {"content": {"a": 1}}}, "usage": bedrock_usage(100, 10)}, "unusable output", 110),
        ("bedrock", [1], "broken answer", 0),
        ("google", generated({"text": "I ca"}, finish="SAFETY"), "content filter", 110),
        (
            "google",
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 100}},
            "content filter",
            100,
        ),
        ("google", generated(finish="MAX_TOKENS"), "empty answer", 110),
        ("google", generated({"text": 5}), "unusable output", 110),
        ("google", generated(finish="MALFORMED_FUNCTION_CALL"), "empty answer", 110),
        ("google", {"usageMetadata": gemini_usage(100, 10)}, "broken answer", 110),
        ("google", [1], "broken answer", 0),
    ],
)
async def test_an_answer_that_cannot_be_used_is_paid_for_and_the_candidates_fault(
    provider: str, told: Any, kind: str, tokens: int
) -> None:
    fault = await fault_of(provider, told)
    assert (type(fault), fault.kind, fault.billed, fault.tokens) == (CandidateFault, kind, "yes", tokens)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("provider", "status", "error", "meaning"),
    [
        ("anthropic", 400, {"type": "invalid_request_error"}, CandidateFault),
        ("anthropic", 400, {"type": "billing_error"}, Refused),
        ("anthropic", 401, {"type": "authentication_error"}, Refused),
        ("anthropic", 404, {"type": "not_found_error"}, Refused),
        ("anthropic", 413, {"type": "request_too_large"}, CandidateFault),
        ("anthropic", 500, {"type": "api_error"}, Unreachable),
        ("anthropic", 500, {"type": "overloaded_error"}, Throttled),
        ("anthropic", 529, {"type": "overloaded_error"}, Throttled),
        ("anthropic", 307, {}, Refused),
        ("bedrock", 400, {"__type": "ValidationException"}, CandidateFault),
        ("bedrock", 400, {"__type": "com.amazon#ServiceQuotaExceededException"}, Throttled),
        ("bedrock", 400, {"__type": "ExpiredTokenException"}, Refused),
        ("bedrock", 403, {"__type": "AccessDeniedException"}, Refused),
        ("bedrock", 404, {"__type": "ResourceNotFoundException"}, Refused),
        ("bedrock", 408, {"__type": "ModelTimeoutException"}, Unreachable),
        ("bedrock", 424, {"__type": "ModelErrorException"}, Unreachable),
        ("bedrock", 429, {"__type": "ThrottlingException"}, Throttled),
        ("bedrock", 500, {"__type": "InternalServerException"}, Unreachable),
        ("bedrock", 503, {"__type": "ServiceUnavailableException"}, Throttled),
        ("bedrock", 307, {}, Refused),
        ("google", 400, {"status": "INVALID_ARGUMENT"}, CandidateFault),
        ("google", 400, {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}, Refused),
        ("google", 403, {"status": "PERMISSION_DENIED"}, Refused),
        ("google", 404, {"status": "NOT_FOUND"}, Refused),
        ("google", 429, {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34.5s"}]}, Throttled),
        ("google", 500, {"status": "INTERNAL"}, Unreachable),
        ("google", 503, {"status": "UNAVAILABLE"}, Throttled),
        ("google", 307, {}, Refused),
    ],
)
async def test_a_refusal_has_one_meaning_is_never_billed_and_shows_no_key(
    provider: str, status: int, error: Told, meaning: type[Fault], streams: bool
) -> None:
    said = f"not with {SECRET if provider == 'bedrock' else KEY}"
    told = {"message": said, **error} if provider == "bedrock" else {"type": "error", "error": {"message": said, **error}}
    fault = await fault_of(provider, told, status=status, streams=streams)
    assert (type(fault), fault.kind, fault.billed) == (meaning, f"http {status}", "no")
    assert KEY not in str(fault) and SECRET not in str(fault)
    if "details" in error and isinstance(fault, Throttled):
        assert fault.retry_after == 34.5


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 9999, b'"text"', b"[]", b""])
@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_an_error_is_one_whatever_its_body_is(provider: str, body: bytes) -> None:
    async with asking(provider, answering=lambda _: web.Response(body=body, status=503)) as (_, models):
        with pytest.raises(Throttled):
            await ask(models, provider)


ANTHROPIC_BEGINNING = [("message_start", {"type": "message_start", "message": {"usage": anthropic_usage(100, 1)}})]
PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one"}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
CONVERSE_BEGINNING = [("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "one"}})]
HALF = {"candidates": [{"content": {"parts": [{"text": "one"}]}}]}
EXHAUSTED = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "busy"}}


@pytest.mark.parametrize(
    ("provider", "events", "meaning"),
    [
        ("anthropic", [*ANTHROPIC_BEGINNING, ("", BLOCK), ("", PIECE)], Unreachable),
        ("anthropic", [*ANTHROPIC_BEGINNING, ("", OVERLOADED)], Throttled),
        ("anthropic", [*ANTHROPIC_BEGINNING, ("", BLOCK), ("", PIECE), ("", OVERLOADED)], Unreachable),
        ("anthropic", [*ANTHROPIC_BEGINNING, ("", {**PIECE, "index": "x"})], CandidateFault),
        ("anthropic", [("", "no JSON")], CandidateFault),
        ("bedrock", CONVERSE_BEGINNING, Unreachable),
        ("bedrock", [("throttlingException", {"message": "busy"})], Throttled),
        ("bedrock", [*CONVERSE_BEGINNING, ("throttlingException", {"message": "busy"})], Unreachable),
        ("bedrock", [("contentBlockDelta", {"contentBlockIndex": "x", "delta": {"text": "one"}})], CandidateFault),
        ("bedrock", [("contentBlockDelta", "no JSON")], CandidateFault),
        ("google", [("", HALF)], Unreachable),
        ("google", [("", EXHAUSTED)], Throttled),
        ("google", [("", HALF), ("", EXHAUSTED)], Unreachable),
        ("google", [("", "no JSON")], CandidateFault),
        ("google", [("", {"candidates": [7]})], CandidateFault),
    ],
)
async def test_a_stream_that_breaks_off_is_no_answer_and_one_that_lies_is_a_bad_one(
    provider: str, events: list[tuple[str, Any]], meaning: type[Fault]
) -> None:
    async with asking(provider, events=events) as (_, models):
        with pytest.raises(Fault) as raised:
            await ask(models, provider, stream=True)
    assert type(raised.value) is meaning, raised.value


@pytest.mark.parametrize(
    ("provider", "told"),
    [
        ("anthropic", message({"type": "tool_use", "id": "c", "name": "look", "input": {"at": "it"}}, stop="tool_use")),
        ("google", generated({"functionCall": {"name": "look", "args": {"at": "it"}}})),
        ("bedrock", converse({"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": "it"}}}, stop="tool_use")),
    ],
)
async def test_a_call_of_a_tool_is_an_answer(provider: str, told: Told) -> None:
    async with asking(provider, answering=lambda _: web.json_response(told)) as (_, models):
        answer = await ask(models, provider)
    assert answer.finish_reason == "tool_calls"
    assert answer.value["content"] is None
    assert [(call["name"], call["arguments"]) for call in answer.value["tool_calls"]] == [("look", {"at": "it"})]


async def test_texts_are_embedded_where_a_provider_can() -> None:
    vectors = {"embeddings": [{"values": [1.0, 0.0]}, {"values": [0.0, 1.0]}]}
    async with asking("google", answering=lambda _: web.json_response(vectors)) as (endpoint, models):
        given: dict[str, Any] = {"base_url": None, "timeout": 5.0, "prices": {}, "context": CallContext()}
        embedded = await embed(models, ["a", "b"], model="google/embedding", **given)
        assert [one["content"]["parts"] for one in endpoint.bodies[0]["requests"]] == [[{"text": "a"}], [{"text": "b"}]]
        with pytest.raises(Refused, match="no embeddings"):
            await embed(models, ["a"], model="anthropic/claude", **given)
    assert embedded.vectors == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("model", ["amazon.titan-embed-text-v2:0", "eu.cohere.embed-v4:0"])
async def test_bedrocks_models_embed_each_in_its_own_words(model: str) -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0]}

    def answer(body: Told) -> web.StreamResponse:
        texts = body["texts"] if "texts" in body else [body["inputText"]]
        found = [vectors[text] for text in texts]
        told = {"embeddings": {"float": found}} if "texts" in body else {"embedding": found[0]}
        return web.json_response(told, headers={"x-amzn-bedrock-input-token-count": str(len(texts))})

    async with asking("bedrock", answering=answer) as (_, models):
        given: dict[str, Any] = {"base_url": None, "timeout": 5.0, "context": CallContext()}
        embedded = await embed(
            models, ["a", "b"], model=f"bedrock/{model}", prices={f"bedrock/{model}": Price(input=10, output=0)}, **given
        )
        with pytest.raises(Refused, match="no embeddings that are understood"):
            await embed(models, ["a"], model="bedrock/anthropic.claude", prices={}, **given)
    assert (embedded.vectors, embedded.tokens) == ([[1.0, 0.0], [0.0, 1.0]], 2)
    assert embedded.cost == pytest.approx(20 / 1e6)


GEMINI = "https://generativelanguage.googleapis.com"
OPENROUTER = "https://openrouter.ai/api/v1"
BEDROCK_IN_PARIS = "https://bedrock-runtime.eu-west-3.amazonaws.com"
THEIRS = {"ANTHROPIC_BASE_URL": "https://claude.example", "GOOGLE_GEMINI_BASE_URL": "https://gemini.example/v1beta"}


@pytest.mark.parametrize(
    ("variables", "model", "base_url", "place"),
    [
        ({}, "anthropic/claude", None, ("anthropic", "https://api.anthropic.com", "claude")),
        ({}, "google/gemini", None, ("google", "https://generativelanguage.googleapis.com", "gemini")),
        ({}, "openai/gpt", None, ("openai", "https://api.openai.com/v1", "gpt")),
        ({}, "gpt", None, ("openai", "https://api.openai.com/v1", "gpt")),
        ({}, "mistral/small", None, ("openai", "https://api.openai.com/v1", "mistral/small")),
        (THEIRS, "anthropic/claude", None, ("anthropic", "https://claude.example", "claude")),
        (THEIRS, "anthropic/claude", "https://claude.example/x", ("anthropic", "https://claude.example/x", "claude")),
        ({}, "google/gemini", "https://generativelanguage.googleapis.com/v1", ("google", ..., "gemini")),
        ({}, "bedrock/m", None, ("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com", "m")),
        ({"AWS_DEFAULT_REGION": "eu-west-3"}, "bedrock/m", None, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"AWS_REGION": "eu-west-3"}, "bedrock/m", BEDROCK_IN_PARIS, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"AWS_REGION": "eu-west-1"}, "bedrock/m", BEDROCK_IN_PARIS, ("openai", BEDROCK_IN_PARIS, "bedrock/m")),
        ({MODEL_URLS: f"bedrock={BEDROCK_IN_PARIS}"}, "bedrock/m", BEDROCK_IN_PARIS, ("bedrock", BEDROCK_IN_PARIS, "m")),
        ({"OPENAI_BASE_URL": OPENROUTER, "AWS_REGION": "eu-west-3"}, "bedrock/m", None, ("openai", OPENROUTER, "bedrock/m")),
        # Names of gateways and of servers of open models are theirs, as before there were prefixes.
        ({}, "anthropic/claude", OPENROUTER, ("openai", OPENROUTER, "anthropic/claude")),
        ({"OPENAI_BASE_URL": OPENROUTER}, "anthropic/claude", None, ("openai", OPENROUTER, "anthropic/claude")),
        ({"OPENAI_BASE_URL": OPENROUTER}, "openai/gpt", None, ("openai", OPENROUTER, "openai/gpt")),
        ({"OPENAI_BASE_URL": OPENROUTER, "ANTHROPIC_API_KEY": "k"}, "google/gemma", None, ("openai", OPENROUTER, ...)),
        ({"OPENAI_BASE_URL": OPENROUTER, **THEIRS}, "anthropic/claude", None, ("anthropic", ..., "claude")),
        ({"OPENAI_BASE_URL": OPENROUTER, MODEL_URLS: f"openai={OPENROUTER}"}, "openai/gpt", None, ("openai", ..., "gpt")),
        ({MODEL_URLS: "anthropic=https://mine.example"}, "anthropic/claude", "https://mine.example", ("anthropic", ..., ...)),
        # Their endpoints that are like OpenAI's are asked like OpenAI's.
        ({}, "claude", "https://api.anthropic.com/v1", ("openai", "https://api.anthropic.com/v1", "claude")),
    ],
)
def test_a_prefix_names_a_provider_where_the_place_is_its_own(
    variables: dict[str, str], model: str, base_url: str | None, place: tuple[Any, ...]
) -> None:
    found = dataclasses.astuple(lists_of(variables).model_place(model, base_url))
    assert [one for one, wanted in zip(found, place, strict=True) if wanted is not ...] == [
        wanted for wanted in place if wanted is not ...
    ]


def test_each_key_goes_to_its_own_provider_only() -> None:
    keys = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g"}
    lists = lists_of({**keys, MODEL_URLS: "https://plain.example, anthropic=https://claude.example"})
    origins = {
        ("openai", "https://api.openai.com/v1"): "o",
        ("openai", "https://plain.example"): "o",
        ("anthropic", "https://api.anthropic.com"): "a",
        ("anthropic", "https://claude.example"): "a",
        ("google", "https://generativelanguage.googleapis.com"): "g",
    }
    for provider in ("openai", "anthropic", "google"):
        for _, url in origins:
            if (provider, url) in origins:
                assert lists.model_key(url, provider) == origins[provider, url]
            else:
                with pytest.raises(NotListed, match=MODEL_URLS):
                    lists.model_key(url, provider)
        assert lists.model_key("http://127.0.0.1:9/v1", provider) == NO_KEY
    assert lists_of({"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "h"}).model_key(GEMINI, "google") == "h"


def asked_of(model: str) -> Any:
    target = {"kind": "chat", "model": model, "messages": [{"role": "user", "content": "{{input}}"}]}
    return request(target=target, dataset={"items": [{"input": "x"}]})


@pytest.mark.parametrize("provider", PROTOCOLS)
async def test_the_check_asks_each_for_its_models(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(PROTOCOLS[provider]()) as endpoint:
        for name, value in environment(provider, endpoint).items():
            monkeypatch.setenv(name, value)
        assert await check_endpoints(asked_of(f"{provider}/simulated-echo")) == []
        if provider == "bedrock":
            return  # it lists no models where it is asked, and many that are listed elsewhere go by other names
        [problem] = await check_endpoints(asked_of(f"{provider}/unheard-of"))
        assert "does not list a model 'unheard-of'; it has simulated-agent, simulated-echo" in problem.message


async def test_the_check_tells_who_has_no_embeddings() -> None:
    similar = {"kind": "similarity", "model": "anthropic/claude"}
    told = await check_endpoints(request(target={"kind": "python", "ref": "a:b"}, scorers=[similar], objective="similarity"))
    assert any("scorers[0].model: 'anthropic/claude' is of a provider that has no embeddings" in one.message for one in told)


async def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extras, "OF_PROVIDERS", {"anthropic": "no_such_sdk", "google": "google.no_such_sdk", "bedrock": "no_such_sdk"}
    )
    for provider in ("anthropic", "google", "bedrock"):
        [problem] = await check_endpoints(asked_of(f"{provider}/m"))
        assert problem.message.endswith(f"run where the workers run: pip install 'ratchet-optimizer[{provider}]'")
        async with asking(provider) as (_, models):
            with pytest.raises(Refused, match="pip install"):
                await ask(models, provider)
