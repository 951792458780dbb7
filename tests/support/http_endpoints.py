"""Small real HTTP endpoints for tests: whatever a handler answers, and what was asked of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from activities.settings import HTTP_URLS
from tests.support.allowed import allow


@dataclass
class Asked:
    """One request as the endpoint saw it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


Answering = Callable[[Asked], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass
class Endpoint:
    """A running endpoint."""

    url: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return "/".join(self.url.split("/")[:3])


@asynccontextmanager
async def json_endpoint(answering: Answering, *, allowed: bool = True) -> AsyncIterator[Endpoint]:
    """Answer until the block is left. Unless it is not `allowed`, workers of the tests may call it."""
    endpoint = Endpoint("")

    async def handle(request: web.Request) -> web.StreamResponse:
        text = await request.text()
        asked = Asked(request.method, request.raw_path, request.headers, json.loads(text) if text else None)
        endpoint.asked.append(asked)
        answered = answering(asked)
        return await answered if isinstance(answered, Awaitable) else answered

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/answer"
    if allowed:
        allow(HTTP_URLS, endpoint.origin)
    try:
        yield endpoint
    finally:
        await runner.cleanup()


Spec = Callable[..., dict[str, Any]]


def hill(asked: Asked) -> web.Response:
    """The higher the better, for 20 tokens a call."""
    x = asked.body["settings"]["x"]
    assert isinstance(x, int)
    return web.json_response({"result": [{"height": f"{x / 1000:.3f}"}], "usage": {"tokens": 20, "cost": 0.5}})


def target(url: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "http",
        "url": url,
        "body": {"settings": "{{factors}}", "where": "{{input}}", "unit": "in {{factors.unit}}"},
        "response": {"output": "result.0", "tokens": "usage.tokens", "cost": "usage.cost"},
        **more,
    }


def climbing(spec: Spec, url: str, **more: Any) -> dict[str, Any]:
    scorers = [{"kind": "python", "name": "height", "ref": "plugged:height"}]
    return spec(**{"target": target(url), "scorers": scorers, "stop": {"max_rounds": 4, "no_improvement": 0}, **more})
