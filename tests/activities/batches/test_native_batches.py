"""What Anthropic and Google say of batches and of results, read as it is; and the servers of tests, by the vendors' SDKs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from activities.batches.protocols import protocol_of
from activities.batches.protocols.gemini_batches import said_of
from activities.batches.protocols.inlined_responses import InlinedResponses
from activities.batches.result_file import ModelAsked, ResultFiles
from activities.endpoints.endpoint_policy import ModelPlace
from activities.targets.faults import Unreachable
from tests.support.batch_server import provider_of_batches
from tests.support.batched_provider import Plan
from workflows.model.run.amounts import Amount
from workflows.model.spec.prices import Price

PRICE = Price(input=2, output=4).in_batches


def results_of(provider: str, folder: Path, lines: list[Any]) -> ResultFiles:
    path = folder / "results.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    asked = ModelAsked(f"{provider}/m", ModelPlace(provider, "http://model", "m"), protocol_of(provider), PRICE)
    return ResultFiles([path], asked)


def verdicts(found: ResultFiles) -> dict[str, tuple[str, str]]:
    return {name: (line.verdict, line.error_class) for name, line in found.lines.items()}


def message(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"content": content, "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5}, **more}


def anthropic(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"custom_id": f"{name}-{'k' * 15}", "result": {"type": kind, **more}}


def errored(name: str, label: str) -> dict[str, Any]:
    return anthropic(name, "errored", error={"type": "error", "error": {"type": label, "message": "no"}})


def test_each_result_of_anthropic_is_what_it_is_when_it_is_asked_at_once(tmp_path: Path) -> None:
    lines = [
        *("no JSON", "[]", anthropic("good", "succeeded", message=message("yes")), anthropic("odd", "succeeded", message=7)),
        anthropic("refusal", "succeeded", message=message("", stop_reason="refusal")),
        *(anthropic("late", "expired"), anthropic("ended", "canceled"), errored("bad", "invalid_request_error")),
        *(errored("busy", "overloaded_error"), errored("down", "api_error"), errored("key", "authentication_error")),
        anthropic("new", "something_new"),
    ]
    found = results_of("anthropic", tmp_path, lines)
    found.note({"good", "odd", "refusal", "late", "ended", "bad", "busy", "down", "key", "new"})
    assert verdicts(found) == {
        "good": ("answer", ""),
        "odd": ("again", "no answer"),
        "refusal": ("answer", "refusal"),
        "late": ("again", "batch expired"),
        "ended": ("again", "batch cancelled"),
        "bad": ("answer", "http 400"),
        "busy": ("again", "http 529"),
        "down": ("again", "http 500"),
        "key": ("refused", "http 401"),
        "new": ("again", "no answer"),
    }
    assert found.output("good").value == "yes"
    assert found.bill("good") == Amount(1, 15, (10 * 2 + 5 * 4) / 2 / 1_000_000)
    assert {name: reply.fault for name, reply in found.replies().items()}["good"] is None


def google(name: str, **more: Any) -> dict[str, Any]:
    return {"custom_id": name, "metadata": {"key": name}, **more}


def content(text: str) -> dict[str, Any]:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}
    return {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}], "usageMetadata": usage}


def test_each_result_of_google_is_what_it_is_when_it_is_asked_at_once(tmp_path: Path) -> None:
    lines = [
        *(google("good", response=content("yes")), google("odd", response={"candidates": "?"}), google("none")),
        *(google("late", error={"code": 4}), google("ended", error={"code": 1}), google("bad", error={"code": 3})),
        *(google("busy", error={"code": 8}), google("down", error={"code": 13}), google("gone", error={"code": 404})),
    ]
    found = results_of("google", tmp_path, lines)
    found.note({"good", "odd", "none", "late", "ended", "bad", "busy", "down", "gone"})
    assert verdicts(found) == {
        "good": ("answer", ""),
        "odd": ("answer", "broken answer"),
        "none": ("again", "no answer"),
        "late": ("again", "batch expired"),
        "ended": ("again", "batch cancelled"),
        "bad": ("answer", "http 400"),
        "busy": ("again", "http 429"),
        "down": ("again", "http 500"),
        "gone": ("refused", "http 404"),
    }
    assert found.bill("good") == Amount(1, 15, (10 * 2 + 5 * 4) / 2 / 1_000_000)


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_results_are_taken_out_of_a_reply_whatever_its_pieces(size: int) -> None:
    """Texts that look like the end of the list, or like another list, are texts."""
    results = [{"n": n, "text": f'é "inlinedResponses": [ ] }} {"x" * 50}'} for n in range(40)]
    reply = {
        "name": "batches/1",
        "metadata": {"output": {"inlinedResponses": {"inlinedResponses": results}}, "state": "BATCH_STATE_SUCCEEDED"},
        "response": {"inlinedResponses": {"inlinedResponses": results[:2]}},
        "done": True,
    }
    text = json.dumps(reply, ensure_ascii=False, indent=1).encode()
    taken: list[Any] = []
    reading = InlinedResponses(taken.append)
    for begin in range(0, len(text), size):
        reading.read(text[begin : begin + size])
    rest = json.loads(reading.rest())
    assert taken == [*results, *results[:2]]
    assert rest["metadata"] == {"output": {"inlinedResponses": {"inlinedResponses": []}}, "state": "BATCH_STATE_SUCCEEDED"}
    assert rest["done"] is True


@pytest.mark.parametrize(
    ("operation", "standing"),
    [
        ({"metadata": {"state": "BATCH_STATE_PENDING"}}, "going"),
        ({"metadata": {"state": "JOB_STATE_SUCCEEDED"}, "done": True}, "answered"),
        ({"metadata": {"state": "BATCH_STATE_EXPIRED"}, "done": True}, "stopped"),
        ({"metadata": {"state": "BATCH_STATE_FAILED"}, "done": True, "error": {"code": 8}}, "refused"),
        ({"done": True, "error": {"code": 3}}, "refused"),
        ({"done": True}, "answered"),
        ({}, "going"),
    ],
)
def test_an_operation_of_google_stands_as_it_says(operation: dict[str, Any], standing: str) -> None:
    said = said_of({"name": "batches/b-1", **operation})
    assert said.standing == standing
    assert said.begins_later == (operation.get("error") == {"code": 8})


def test_a_batch_that_is_named_like_another_path_is_not_asked_for() -> None:
    with pytest.raises(Unreachable, match="no name of a batch"):
        said_of({"name": "batches/../models"})


async def test_the_server_of_anthropic_is_understood_by_its_sdk(tmp_path: Path) -> None:
    import anthropic as sdk

    async with provider_of_batches("anthropic", lambda body: body["messages"][-1]["content"].upper(), tmp_path) as server:
        client = sdk.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0)
        server.plans = [Plan(answers=1, ends="expired")]
        turns = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
        requests: Any = [{"custom_id": f"r{n}", "params": {"model": "m", "max_tokens": 5, "messages": turns}} for n in range(2)]
        made = await client.messages.batches.create(requests=requests)
        assert (made.processing_status, made.request_counts.processing) == ("in_progress", 2)
        ended = await client.messages.batches.retrieve(made.id)
        assert (ended.processing_status, ended.request_counts.succeeded, ended.request_counts.expired) == ("ended", 1, 1)
        results = {one.custom_id: one.result async for one in await client.messages.batches.results(made.id)}
        assert results["r1"].type == "expired"
        assert results["r0"].type == "succeeded"
        assert [one.id async for one in client.messages.batches.list()] == [made.id]
        await client.close()


async def test_the_server_of_google_is_understood_by_its_sdk(tmp_path: Path) -> None:
    from google import genai
    from google.genai import types

    async with provider_of_batches("google", lambda body: body["messages"][-1]["content"].upper(), tmp_path) as server:
        options = types.HttpOptions(base_url=server.url.removesuffix("/v1beta"), api_version="v1beta")
        client = genai.Client(api_key="k", vertexai=False, http_options=options)
        source: Any = [{"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "metadata": {"key": "r0"}}]
        made = await client.aio.batches.create(model="m", src=source, config={"display_name": "ours"})
        assert (made.display_name, made.state) == ("ours", types.JobState.JOB_STATE_PENDING)
        ended = await client.aio.batches.get(name=made.name or "")
        assert ended.state == types.JobState.JOB_STATE_SUCCEEDED
        [result] = (ended.dest.inlined_responses if ended.dest else None) or []
        assert result.metadata == {"key": "r0"}
        assert result.response is not None and result.response.text == "HELLO"
        await client.aio.aclose()
