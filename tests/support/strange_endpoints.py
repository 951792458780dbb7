"""An endpoint that answers every sample with what was prepared for it, and counts how often each was asked for."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NAMED: Final = re.compile(r"<<(.+?)>>")
"""How a sample's input names the answer that it wants."""

USAGE: Final = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}


@dataclass
class Stranger:
    """A running endpoint."""

    answers: Mapping[str, Answer]
    origin: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    """By the name of the answer, and the rest of the input that asked for it."""

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    def of(self, name: str) -> Counter[str]:
        """How often each sample that wants this answer asked for it."""
        return Counter({asked: count for asked, count in self.calls.items() if asked.startswith(f"{name}|")})


@asynccontextmanager
async def stranger(answers: Mapping[str, Answer]) -> AsyncIterator[Stranger]:
    there = Stranger(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        named = _NAMED.findall(await request.text())
        name, _, rest = named[-1].partition("|")
        there.calls[f"{name}|{rest}"] += 1
        return await there.answers[name](request)

    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield there
    finally:
        await runner.cleanup()


def body(text: str | bytes, *, status: int = 200, content_type: str = "application/json", **headers: str) -> Answer:
    """A complete response."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    told = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=status, headers=told)

    return answer


def when_asked(make: Callable[[], Answer]) -> Answer:
    """An answer so large that it is made when somebody asks for it, and kept then."""
    made = functools.cache(make)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (await asyncio.to_thread(made))(request)

    return answer


def packed(text: bytes, *, encoding: str = "gzip") -> Answer:
    return body(gzip.compress(text), Content_Encoding=encoding)


def cut_off(text: bytes) -> Answer:
    """A response whose connection is lost in the middle."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(2 * len(text) + 10)})
        await response.prepare(request)
        await response.write(text)
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer


def endless(part: bytes, content_type: str = "application/json") -> Answer:
    """A response that goes on until nobody listens any more."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        while True:
            await response.write(part)
            await asyncio.sleep(0)

    return answer


def completion(message: Any, *, usage: Any = USAGE, finish: Any = "stop") -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def said(message: Any, **more: Any) -> Answer:
    """A chat completion, in whatever JSON Python can write: NaN, lone surrogates, endless digits."""
    return body(json.dumps(completion(message, **more)))


def streamed(*deltas: Any, usage: Any = USAGE, finish: Any = "stop", end: str = "data: [DONE]\n\n") -> Answer:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
    return stream(*[json.dumps(chunk) for chunk in chunks], end=end)


def stream(*data: str, end: str = "data: [DONE]\n\n") -> Answer:
    return body("".join(f"data: {part}\n\n" for part in data) + end, content_type="text/event-stream")


def nested(depth: int, inside: str = "1") -> str:
    return "[" * depth + inside + "]" * depth


def calls(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments, **more}}]}
