"""Two thousand generated answers, of every protocol, end as finished runs that paid for nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest
from aiohttp import web
from hypothesis import strategies as st
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES, HTTP_URLS, RUNNER_URLS
from tests.support.allowed import allow
from tests.support.generated_answers import ODD, as_bytes, changed, damaged, examples
from tests.support.hostile_harness import SHORT_PATIENCE, Arena, Ended, as_json, spec
from tests.support.strange_endpoints import Answer, body, calls, completion, stranger

ANSWERS: Final = 400
"""Generated of each protocol; there are five."""
FAIR: Final = 30
"""Samples whose answers are fair, so that a target never looks as if it were down."""
LONGEST: Final = 110.0
GOOD: Final = {"value": "an a", "tokens": 3, "cost": 0.01}

pytestmark = pytest.mark.timeout(300)


def inputs() -> dict[str, str]:
    return {f"g{n}": f"<<{n}|>>" for n in range(ANSWERS)} | {f"fair {n}": f"<<fair|{n}>>" for n in range(FAIR)}


def measuring(target: dict[str, Any], scorer: dict[str, Any] | None = None) -> dict[str, Any]:
    """One trial over all answers."""
    return spec(
        configuration={"prompt": "Answer."},
        target=target,
        dataset={"items": [{"id": name, "input": text} for name, text in inputs().items()], "splits": "none"},
        scorers=[scorer or {"kind": "contains", "name": "height", "values": ["an a"]}],
        optimizer="none",
        execution={"sample_timeout": "30s", "min_coverage": 0.01},
        stop={"max_rounds": 1},
    )


async def ended_by(arena: Arena, target: dict[str, Any], name: str) -> Ended:
    return await arena.run([as_json(measuring(target))], f"generated-{name}", longest=LONGEST)


def is_over(end: Ended, samples: int = ANSWERS + FAIR) -> None:
    """A configuration most of whose answers are rubbish is measured, and then is no baseline to go on from."""
    rubbish = end.type == "baseline_failed" and f"of the baseline's {samples} samples failed" in end.message
    assert end.status == "completed" or rubbish, str(end)


def nothing_hangs_or_is_paid_twice(end: Ended, made: Counter[str]) -> None:
    is_over(end)
    assert end.rows["answers"] == ANSWERS + FAIR
    twice = {name: count for name, count in made.items() if count > 1}
    assert not twice, f"paid for more than once: {twice}"
    assert made.total() <= ANSWERS + FAIR


def at_the_endpoint(bodies: list[bytes], fair: Answer, content_type: str) -> dict[str, Answer]:
    return {**{str(n): body(data, content_type=content_type) for n, data in enumerate(bodies)}, "fair": fair}


async def test_chat_answers_of_any_shape_fail_their_sample_at_worst(arena: Arena) -> None:
    templates = [completion({"role": "assistant", "content": "an a"}), completion(calls('{"a": 1}', id="c"))]
    bodies = examples(damaged(st.sampled_from(templates).flatmap(changed).map(as_bytes)), ANSWERS, 1)
    async with stranger(at_the_endpoint(bodies, body(as_bytes(templates[0])), "application/json")) as there:
        messages = [{"role": "user", "content": "{{input}}"}]
        end = await ended_by(arena, {"kind": "chat", "model": "m", "base_url": there.base_url, "messages": messages}, "chat")
    nothing_hangs_or_is_paid_twice(end, there.calls)


async def test_streamed_answers_of_any_shape_fail_their_sample_at_worst(arena: Arena) -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "an a"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{"}}]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"total_tokens": 11}},
    ]
    some = st.lists(st.sampled_from(chunks).flatmap(changed) | st.sampled_from(chunks), min_size=1, max_size=5)
    bodies = examples(damaged(st.builds(events, some, st.sampled_from(["data: [DONE]\n\n", "", "data: "]))), ANSWERS, 2)
    fair = body(events([chunks[0], chunks[2]], "data: [DONE]\n\n"), content_type="text/event-stream")
    async with stranger(at_the_endpoint(bodies, fair, "text/event-stream")) as there:
        target = {"kind": "chat", "model": "m", "base_url": there.base_url, "stream": True}
        end = await ended_by(arena, {**target, "messages": [{"role": "user", "content": "{{input}}"}]}, "streamed")
    stored = await answered(arena, end)
    again = {name: count for name, count in there.calls.items() if count > 1}
    assert not {name for name in again if f"g{name.rstrip('|')}" in stored}, "an answer that was kept was asked for again"
    assert all(count == SHORT_PATIENCE.attempts for count in again.values()), "a stream that is cut off is tried so often"
    assert len(stored) + len(again) == ANSWERS + FAIR
    is_over(end, len(stored))


async def answered(arena: Arena, end: Ended) -> set[str]:
    """The samples that have an outcome."""
    async with arena.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT s.item_id FROM outcomes o JOIN runs r USING (run_id) "
            "JOIN samples s ON s.dataset_id = r.dataset_id AND s.item_hash = o.item_hash WHERE o.run_id = $1",
            end.run_id,
        )
    return {row["item_id"] for row in rows}


def events(chunks: list[Any], end: str) -> bytes:
    return b"".join(b"data: " + as_bytes(chunk) + b"\n\n" for chunk in chunks) + end.encode()


async def test_http_answers_of_any_shape_fail_their_sample_at_worst(arena: Arena) -> None:
    template = {"value": "an a", "usage": {"tokens": 3, "cost": 0.01, "ms": 4}, "scores": {"s": 1}, "error": None}
    bodies = examples(damaged(changed(template).map(as_bytes)), ANSWERS, 3)
    async with stranger(at_the_endpoint(bodies, body(as_bytes(template)), "application/json")) as there:
        allow(HTTP_URLS, there.origin)
        places = {
            "output": "value",
            "tokens": "usage.tokens",
            "cost": "usage.cost",
            "latency_ms": "usage.ms",
            "error": "error",
        }
        end = await ended_by(arena, {"kind": "http", "url": f"{there.origin}/answer", "response": places}, "http")
    nothing_hangs_or_is_paid_twice(end, there.calls)


async def test_activity_answers_of_any_shape_fail_their_sample_at_worst(arena: Arena) -> None:
    template = {**GOOD, "latency_ms": 4, "scores": {"s": 1}, "trace": {"a": [1]}}
    answers = examples(damaged((changed(template) | ODD).map(as_bytes)), ANSWERS, 4)
    made: Counter[str] = Counter()

    @activity.defn(name="generated")
    async def answer(call: dict[str, Any]) -> RawValue:
        name = str(call["sample"]["id"])
        made[name] += 1
        data = as_bytes(GOOD) if name.startswith("fair") else answers[int(name[1:])]
        return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data))

    allow(ACTIVITY_QUEUES, "generated")
    async with Worker(arena.client, task_queue="generated", activities=[answer], graceful_shutdown_timeout=timedelta(0)):
        target = {"kind": "activity", "activity": "generated", "task_queue": "generated"}
        end = await ended_by(arena, target, "activity")
    nothing_hangs_or_is_paid_twice(end, made)


async def test_runner_answers_of_any_shape_fail_their_sample_at_worst(arena: Arena) -> None:
    template = {**GOOD, "latency_ms": 4, "scores": {"s": 1}, "trace": {"a": [1]}}
    answers = examples(changed(template), ANSWERS, 5)
    by_id = {f"g{n}": given for n, given in enumerate(answers)}
    async with runner(by_id) as (url, triggered):
        allow(RUNNER_URLS, url)
        end = await ended_by(arena, {"kind": "external", "url": url, "poll": "100ms"}, "runner")
    is_over(end)
    assert end.rows["answers"] == ANSWERS + FAIR
    assert triggered.total() == 1


@pytest.mark.parametrize("number", range(8))
async def test_results_of_any_shape_end_a_runners_trial(number: int, arena: Arena) -> None:
    """What is no list of items breaks the runner's contract: the trial fails, with the reason, and nothing is asked again."""
    page = {"items": [{"id": f"fair {n}", **GOOD} for n in range(FAIR)], "mask_id": "MASK", "next": None}
    broken = examples(changed(page), 8, 6)[number]
    async with runner({}, page=broken) as (url, triggered):
        allow(RUNNER_URLS, url)
        end = await ended_by(arena, {"kind": "external", "url": url, "poll": "100ms"}, f"results-{number}")
    assert end.status in ("completed", "failed"), str(end)
    assert triggered.total() <= 1


@asynccontextmanager
async def runner(answers: dict[str, Any], page: Any = None) -> AsyncIterator[tuple[str, Counter[str]]]:
    """An experiment runner that is done at once, and answers what it is told to."""
    triggered: Counter[str] = Counter()
    asked: dict[str, Any] = {}

    async def trigger(request: web.Request) -> web.Response:
        asked.update(json.loads(await request.text()))
        triggered[request.headers["Idempotency-Key"]] += 1
        return web.json_response({"experiment_id": "e1"})

    async def status(_: web.Request) -> web.Response:
        return web.json_response({"status": "completed"})

    async def results(_: web.Request) -> web.Response:
        if page is not None:
            return web.Response(body=as_bytes(page), content_type="application/json")
        items = []
        for sample in asked["samples"]:
            given = answers.get(sample["id"], GOOD)
            named = {"id": sample["id"], "replicate": sample["replicate"]}
            items.append({**(given if isinstance(given, dict) else {"value": given}), **named, "mask_id": asked["mask_id"]})
        return web.Response(
            body=as_bytes({"items": [{"value": None, **item} for item in items]}), content_type="application/json"
        )

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/experiments", trigger)
    app.router.add_get("/experiments/e1", status)
    app.router.add_get("/experiments/e1/results", results)
    app.router.add_post("/experiments/e1/cancel", status)
    running = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{running.addresses[0][1]}", triggered
    finally:
        await asyncio.shield(running.cleanup())
