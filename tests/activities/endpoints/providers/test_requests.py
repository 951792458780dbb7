"""Every provider is asked in its own protocol by its own SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from activities.endpoints.endpoint_policy import DEFAULT_URLS, OPENAI
from activities.endpoints.providers.anthropic_messages import request_of as anthropic_request
from activities.endpoints.providers.converse_content import request_of as bedrock_request
from activities.targets.faults import CandidateFault, NotSent
from tests.support.provider_endpoints import PROTOCOLS, Told, ask, asking

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


@pytest.mark.parametrize("streams", [True, False])
async def test_openai_itself_is_told_the_longest_answer_in_its_newer_word(
    streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking("openai", answering=lambda _: web.json_response({})) as (endpoint, models):
        for own in (endpoint.url, "https://api.openai.com"):
            monkeypatch.setitem(DEFAULT_URLS, OPENAI, f"{own}/v1")
            with pytest.raises(CandidateFault):
                await ask(models, "openai", parameters={"max_tokens": 9}, stream=streams)
    assert [[name for name in body if name.startswith("max")] for body in endpoint.bodies] == [
        ["max_completion_tokens"],
        ["max_tokens"],
    ]


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
        ("eu.anthropic.claude-x", "none", {"effort": "low"}, None),
        ("eu.anthropic.claude-opus-4-6-v1", "high", {"effort": "high"}, {"thinking": {"type": "adaptive"}}),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "low", None, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "none", None, None),
        ("amazon.nova-2", "high", None, {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        ("openai.gpt-oss", "high", None, {"reasoning_effort": "high"}),
        ("other", "none", None, None),
    ],
)
def test_reasoning_effort_is_said_in_the_words_of_the_models_maker(model: str, effort: str, held: Any, own: Any) -> None:
    made = bedrock_request({"model": model, "messages": [], "reasoning_effort": effort})
    assert (made.get("outputConfig"), made.get("additionalModelRequestFields")) == (held, own)


@pytest.mark.parametrize(
    ("model", "effort", "limit", "thinking", "told"),
    [
        ("claude-opus-4-1", "high", None, {"type": "enabled", "budget_tokens": 12_288}, None),
        ("claude-opus-4-20250514", "high", 64_000, {"type": "enabled", "budget_tokens": 24_576}, None),
        ("claude-3-7-sonnet-latest", "medium", 9_000, {"type": "enabled", "budget_tokens": 6_750}, None),
        ("claude-haiku-4-5-20251001", "low", 4_000, {"type": "enabled", "budget_tokens": 1_024}, None),
        ("claude-haiku-4-5-20251001", "low", 1_200, None, None),
        ("claude-haiku-4-5-20251001", "none", 4_000, None, None),
        ("claude-sonnet-4-6", "minimal", 100, {"type": "adaptive"}, "low"),
        ("claude-opus-4-8", "none", None, None, None),
        ("claude-opus-5", "none", None, {"type": "disabled"}, None),
        ("claude-opus-5-20260701", "high", None, {"type": "adaptive"}, "high"),
        ("claude-opus-5-5", "none", None, None, "low"),
        ("claude-sonnet-5-5", "none", None, {"type": "between_tools"}, None),
        ("claude-fable-5-1", "none", None, None, "low"),
        ("claude-mythos-preview", "max", None, {"type": "adaptive"}, "max"),
    ],
)
def test_a_claude_is_told_how_much_to_think_in_the_words_of_its_generation(
    model: str, effort: str, limit: int | None, thinking: Any, told: str | None
) -> None:
    body: dict[str, Any] = {"model": model, "messages": [], "reasoning_effort": effort, "max_tokens": limit}
    made = anthropic_request(body)
    assert (made.get("thinking"), made.get("output_config")) == (thinking, None if told is None else {"effort": told})
    assert thinking is None or thinking.get("budget_tokens", 0) < made["max_tokens"]


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
