"""Whatever its protocol, an answer, an error and trouble on the way mean the same with every provider."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from activities.targets.faults import CandidateFault, Fault, Refused, Throttled, Unreachable
from tests.support.anthropic_endpoint import usage as anthropic_usage
from tests.support.bedrock_endpoint import SECRET, converse
from tests.support.bedrock_endpoint import usage as bedrock_usage
from tests.support.gemini_endpoint import usage as gemini_usage
from tests.support.model_endpoints import CACHED, FAULTS, THOUGHT
from tests.support.provider_endpoints import AGAIN, KEY, PROTOCOLS, Told, ask, asking, fault_of


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
