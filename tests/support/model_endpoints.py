"""Model servers over HTTP in the protocol of a test's choice: one simulated model behind each, faults, and a count of tokens.

What is asked for in any protocol is answered by the same simulated model, so that one spec gets the same answers from all of
them. Each counts what it would bill, in its own words.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiohttp import web

from clients.demo.deterministic_text import count_tokens
from clients.demo.models import CHAT_MODELS, JUDGE, REFLECTOR, Ask, tool_call
from clients.demo.protocol import ChatRequest

FAULTS = ("throttled", "overloaded", "broken", "cut", "stalled", "page")
"""Trouble on the way, which is never an answer."""

MIXED = "mixed"
"""Each of them now and then."""

CACHED, THOUGHT = 3, 2
"""Tokens of every answer that were read from a cache, and that were thought and not said."""

Answering = Callable[[dict[str, Any]], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass
class Bill:
    """What an endpoint would bill."""

    read: int = 0
    written: int = 0
    answers: int = 0


@dataclass
class ModelEndpoint:
    """A running endpoint. `share` of the texts that it is asked for the first time get this fault instead of an answer."""

    fault: str | None = None
    share: float = 0.2
    answering: Answering | None = None
    """Answers in place of the simulated model, whatever was asked."""
    events: Sequence[tuple[str, Any]] = ()
    """Events of a stream in place of them."""
    named: dict[str, str] = field(default_factory=dict)
    """Simulated models by other names."""
    url: str = ""
    bill: Bill = field(default_factory=Bill)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    _asked: Counter[str] = field(default_factory=Counter)

    routes: ClassVar[Sequence[str]] = ()
    models: ClassVar[Sequence[str]] = tuple(CHAT_MODELS)
    thinks_apart: ClassVar[bool] = True
    """Whether it says how many of the tokens that it wrote were thought."""

    @abstractmethod
    def chat(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        """What is asked for, as a chat completion."""

    @abstractmethod
    def whole(self, said: str, read: int, written: int) -> dict[str, Any]:
        """A complete answer."""

    @abstractmethod
    def calling(self, name: str, arguments: dict[str, Any], read: int, written: int) -> dict[str, Any]:
        """A complete answer that calls a tool."""

    @abstractmethod
    def pieces(self, said: str, read: int, written: int) -> list[tuple[str, dict[str, Any]]]:
        """The events of a streamed one."""

    @abstractmethod
    def refusal(self, status: int, label: str, message: str) -> web.Response:
        """An error."""

    @abstractmethod
    def listing(self) -> dict[str, Any]:
        """The models that there are."""

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    async def stream(self, request: web.Request, events: Sequence[tuple[str, Any]]) -> web.StreamResponse:
        return await stream(request, events)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response(self.listing())
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.answering is not None:
            answered = self.answering(body)
            return await answered if isinstance(answered, Awaitable) else answered
        if self.events:
            return await self.stream(request, self.events)
        asked = self.chat(request, body)
        chat = ChatRequest.model_validate({**asked, "model": self.named.get(asked["model"], asked["model"])})
        if chat.model not in CHAT_MODELS:
            return self.refusal(404, "not_found", f"there is no model {chat.model}")
        text = json.dumps([[message.role, message.text] for message in chat.messages])
        self._asked[text] += 1
        fault = self._fault(text, chat.model)
        if fault is not None:
            self.faults[fault] += 1
            return await self._faulty(request, fault)
        ask = Ask(chat, 7, "call 1")
        call = tool_call(ask)
        said = CHAT_MODELS[chat.model](ask) if call is None else " ".join(call)
        read, written = chat.prompt_tokens + CACHED, count_tokens(said) + THOUGHT
        self.bill = Bill(self.bill.read + read, self.bill.written + written, self.bill.answers + 1)
        if call is not None:
            return web.json_response(self.calling(call[0], json.loads(call[1]), read, written))
        if not self.streams(request, body):
            return web.json_response(self.whole(said, read, written))
        return await self.stream(request, self.pieces(said, read, written))

    def _fault(self, text: str, model: str) -> str | None:
        """A model that writes proposals, or judges, never stalls: it is given minutes."""
        digest = hashlib.sha256(text.encode()).digest()
        if self.fault is None or self._asked[text] > 1 or digest[0] / 256 >= self.share:
            return None
        fault = FAULTS[digest[1] % len(FAULTS)] if self.fault == MIXED else self.fault
        return None if fault == "stalled" and model in (REFLECTOR, JUDGE) else fault

    async def _faulty(self, request: web.Request, fault: str) -> web.StreamResponse:
        match fault:
            case "throttled":
                return self.refusal(429, "throttled", "slow down")
            case "overloaded":
                return self.refusal(503, "overloaded", "there is much to do")
            case "broken":
                return self.refusal(500, "broken", "something broke")
            case "page":
                return web.Response(text="<html>a gateway's page</html>", content_type="text/html")
            case "stalled":
                await asyncio.Event().wait()
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"half of an')
        assert request.transport is not None
        request.transport.abort()
        return response


async def stream(request: web.Request, events: Sequence[tuple[str, dict[str, Any] | str]]) -> web.StreamResponse:
    """Server-sent events, each with its name where it has one."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for name, data in events:
        named = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data)
        await response.write(f"{named}data: {text}\n\n".encode())
    return response


class OpenAiEndpoint(ModelEndpoint):
    """OpenAI's protocol."""

    routes = ("/v1/chat/completions", "/v1/models")

    def chat(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def _usage(self, read: int, written: int) -> dict[str, Any]:
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": CACHED},
            "completion_tokens_details": {"reasoning_tokens": THOUGHT},
        }

    def whole(self, said: str, read: int, written: int) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": self._usage(read, written)}

    def calling(self, name: str, arguments: dict[str, Any], read: int, written: int) -> dict[str, Any]:
        calls = [called(f"call-{name}", name, arguments)]
        choice = {"message": {"role": "assistant", "content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
        return {"choices": [choice], "usage": self._usage(read, written)}

    def pieces(self, said: str, read: int, written: int) -> list[tuple[str, Any]]:
        chunks = [{"choices": [{"delta": {"content": piece}}]} for piece in halves(said)]
        last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": self._usage(read, written)}
        return [*(("", chunk) for chunk in chunks), ("", last), ("", "[DONE]")]

    def refusal(self, status: int, label: str, message: str) -> web.Response:
        headers = {"retry-after-ms": "20"} if status in (429, 503) else {}
        return web.json_response({"error": {"message": message, "type": label}}, status=status, headers=headers)

    def listing(self) -> dict[str, Any]:
        return {"data": [{"id": model} for model in self.models]}


def called(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A call of a tool, as chat completions have it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def turn_of(
    role: str, text: str, calls: Sequence[dict[str, Any]] = (), results: Sequence[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """The messages of a chat completion that one turn of another protocol stands for: what tools gave, by the calls, and
    what was said."""
    messages: list[dict[str, Any]] = [{"role": "tool", "tool_call_id": call, "content": told} for call, told in results]
    if text or calls or not results:
        messages.append({"role": role, "content": text, **({"tool_calls": [*calls]} if calls else {})})
    return messages


def offered(tools: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    """The tools of a chat completion by name, description and schema; nothing where there are none."""
    functions = [{"name": name, "description": told, "parameters": schema} for name, told, schema in tools]
    return {"tools": [{"type": "function", "function": function} for function in functions]} if functions else {}


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


@asynccontextmanager
async def served(endpoint: ModelEndpoint) -> AsyncIterator[ModelEndpoint]:
    """Serve it until the block is left."""
    app = web.Application(client_max_size=64 * 1024 * 1024)
    for route in endpoint.routes:
        app.router.add_route("*", route, endpoint.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield endpoint
    finally:
        await runner.cleanup()
