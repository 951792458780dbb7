"""A shard of a chat target at an endpoint that does whatever a test needs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from temporalio.exceptions import ApplicationError

from activities.endpoints.chat_models import Patience
from ratchet import Sample
from tests.support.activity_attempts import activity_environment
from tests.support.measured_runs import QUICK, MeasuredRun, evaluation
from tests.support.suite_building import suite
from workflows.model.spec.objective import Objective
from workflows.model.spec.scorers.matches import ContainsScorer
from workflows.model.spec.targets.chat import ChatTarget
from workflows.model.suite import Outcome
from workflows.model.trial import ShardResult

MODEL = "simulated-triage-small"
KEY = "sk-very-secret-4711"
TICKETS = [Sample(f"s{n}", {"ticket": f"The invoice number {n} is wrong."}, "x") for n in range(40)]
Handler = Callable[[dict[str, Any]], Awaitable[web.StreamResponse] | web.StreamResponse]


def chat(base_url: str, **more: Any) -> ChatTarget:
    messages = [
        {"role": "system", "content": "{{factors.prompt}}"},
        {"role": "user", "content": "{{input.ticket}}"},
    ]
    return ChatTarget.model_validate({"kind": "chat", "messages": messages, "model": MODEL, "base_url": base_url, **more})


def run_for(target: ChatTarget, samples: list[Sample] | None = None, **more: Any) -> MeasuredRun:
    scorers = [ContainsScorer(kind="contains", values=[])]
    configuration = {"prompt": "Sort the ticket.", **more.pop("factors", {})}
    return MeasuredRun(suite(target, scorers=scorers, objective=Objective(), **more), samples or TICKETS[:1], configuration)


async def evaluated(
    run: MeasuredRun, *, patience: Patience = QUICK, environment: Mapping[str, str] | None = None
) -> ShardResult:
    async with evaluation(run, environment=environment, patience=patience) as evaluating:
        return await activity_environment().run(evaluating.evaluate_shard, run.shard(len(run.samples)))


async def failure(run: MeasuredRun, **environment: str) -> ApplicationError:
    with pytest.raises(ApplicationError) as raised:
        await evaluated(run, environment=environment)
    return raised.value


@asynccontextmanager
async def endpoint(handler: Handler) -> AsyncIterator[str]:
    """An endpoint that does whatever a test needs; gives its base URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        answered = handler({**await request.json(), "_request": request})
        return await answered if isinstance(answered, Awaitable) else answered

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


def completion(content: Any = "billing", *, finish: str = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    spent = usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": spent}


async def outcome_of(answer: Any, *, headers: dict[str, str] | None = None, status: int = 200, **more: Any) -> Outcome:
    """The outcome of one sample whose endpoint gives this answer."""
    body = answer if isinstance(answer, str) else json.dumps(answer)
    async with endpoint(lambda _: web.Response(text=body, status=status, headers=headers)) as url:
        run = run_for(chat(url), **more)
        await evaluated(run)
    return (await run.by_sample())["s0"]
