"""A stream that breaks off is no answer."""

from __future__ import annotations

from typing import Any

import pytest

from activities.targets.faults import CandidateFault, Fault, Throttled, Unreachable
from tests.support.anthropic_endpoint import usage as anthropic_usage
from tests.support.provider_endpoints import ask, asking

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
