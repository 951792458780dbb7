"""What a model thought before it called a tool goes back to it with the tool's result, as it came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from activities.agents.trajectory import Trajectory, content_of
from activities.agents.unkept_turns import UnkeptTurn
from activities.endpoints.call_context import CallContext
from activities.endpoints.chat_models import ChatModels
from activities.endpoints.chat_protocol import LONGEST_THOUGHTS, THOUGHTS
from activities.endpoints.gate import Gates
from activities.endpoints.retry_policy import Patience
from tests.support.allowed import lists_of
from tests.support.anthropic_endpoint import AnthropicEndpoint
from tests.support.anthropic_endpoint import usage as anthropic_usage
from tests.support.bedrock_endpoint import CREDENTIALS, REGION, BedrockEndpoint, converse, usage
from tests.support.gemini_endpoint import GeminiEndpoint
from tests.support.gemini_endpoint import usage as gemini_usage
from tests.support.model_endpoints import ModelEndpoint, OpenAiEndpoint, served

OPENING = [{"role": "user", "content": "Look."}]
SEAL = "c2VhbA=="
THINKING = [{"type": "thinking", "thinking": "hm", "signature": SEAL}, {"type": "redacted_thinking", "data": SEAL}]
USE = {"type": "tool_use", "id": "x", "name": "look", "input": {"at": "it"}}
REASONING: list[dict[str, Any]] = [
    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": SEAL}}},
    {"reasoningContent": {"redactedContent": SEAL}},
]
CALLED = {"functionCall": {"name": "look", "args": {"at": "it"}}}
ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {"content": [*THINKING, USE], "stop_reason": "tool_use", "usage": anthropic_usage(9, 3)},
    "bedrock": converse(*REASONING, {"toolUse": {"toolUseId": "x", "name": "look", "input": {"at": "it"}}}, stop="tool_use"),
    "google": {
        "candidates": [{"content": {"parts": [{**CALLED, "thoughtSignature": SEAL}, CALLED]}, "finishReason": "STOP"}],
        "usageMetadata": gemini_usage(9, 3),
    },
}
STREAMS: dict[str, list[tuple[str, Any]]] = {
    "anthropic": [
        ("", {"type": "message_start", "message": {"usage": anthropic_usage(9, 1)}}),
        (
            "",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        ),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h"}}),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m"}}),
        ("", {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": SEAL}}),
        ("", {"type": "content_block_start", "index": 1, "content_block": THINKING[1]}),
        ("", {"type": "content_block_start", "index": 2, "content_block": {**USE, "input": {}}}),
        (
            "",
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"at": "it"}'}},
        ),
        ("", {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
        ("", {"type": "message_stop"}),
    ],
    "bedrock": [
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "h"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "m"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": SEAL}}}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"reasoningContent": {"redactedContent": SEAL}}}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "x", "name": "look"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"at": "it"}'}}}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": usage(9, 3)}),
    ],
    "google": [("", ANSWERS["google"])],
}
ENDPOINTS: dict[str, Callable[..., ModelEndpoint]] = {
    "openai": OpenAiEndpoint,
    "anthropic": AnthropicEndpoint,
    "bedrock": BedrockEndpoint,
    "google": GeminiEndpoint,
}
SENT_BACK: dict[str, Any] = {
    "anthropic": {"role": "assistant", "content": [*THINKING, {**USE, "id": "call_0_0"}]},
    "bedrock": {
        "role": "assistant",
        "content": [*REASONING, {"toolUse": {"toolUseId": "call_0_0", "name": "look", "input": {"at": "it"}}}],
    },
    "google": {"role": "model", "parts": [{**CALLED, "thoughtSignature": SEAL}, CALLED]},
}


async def next_turn(provider: str, answer: Any, *, streams: bool) -> dict[str, Any]:
    """What the model is sent after it called its tool."""
    endpoint = (
        ENDPOINTS[provider](events=answer) if streams else ENDPOINTS[provider](answering=lambda _: web.json_response(answer))
    )
    async with served(endpoint):
        names = ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")
        told = {**dict.fromkeys(names, endpoint.url), "OPENAI_BASE_URL": f"{endpoint.url}/v1", "AWS_REGION": REGION}
        models = ChatModels(Gates(), lists_of(told), patience=Patience(seconds=-1.0, attempts=1))
        given: dict[str, Any] = {"base_url": None, "parameters": {}, "timeout": 5.0, "prices": {}, "context": CallContext()}
        model = "m" if provider == "openai" else f"{provider}/m"
        course = Trajectory(OPENING, model)
        asked = await models.ask(model=model, messages=course.messages(), stream=streams, **given)
        content = content_of(asked)
        results = {place: {"result": "a cat", "latency_ms": 1.0} for place in range(len(content["calls"]))}
        course.turns.append(UnkeptTurn(content, asked.tokens, asked.cost, results))
        assert SEAL not in str(course.trace("answered")), "nobody reads a seal"
        await models.ask(model=model, messages=course.messages(), stream=streams, **given)
        await models.close()
    return endpoint.bodies[1]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("provider", ANSWERS)
async def test_thoughts_go_back_in_their_places(provider: str, streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    sent = await next_turn(provider, (STREAMS if streams else ANSWERS)[provider], streams=streams)
    assert sent["contents" if provider == "google" else "messages"][1] == SENT_BACK[provider]


async def test_what_is_too_large_to_be_kept_is_let_go() -> None:
    large = {"type": "thinking", "thinking": "h" * LONGEST_THOUGHTS, "signature": SEAL}
    sent = await next_turn("anthropic", {**ANSWERS["anthropic"], "content": [large, USE]}, streams=False)
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["tool_use"]


async def test_no_endpoint_makes_others_send_what_it_likes() -> None:
    call = {"function": {"name": "look", "arguments": "{}"}}
    said = {"role": "assistant", "tool_calls": [call], THOUGHTS: [[0, {"type": "text", "text": SEAL}]]}
    sent = await next_turn("openai", {"choices": [{"message": said, "finish_reason": "tool_calls"}]}, streams=False)
    assert SEAL not in str(sent)
