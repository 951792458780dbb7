"""Targets that live in the soak's own process: an HTTP endpoint, a chat model, somebody else's activity; each call is logged.

The endpoint can be told to throttle, to fail, to stall and to lie.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from aiohttp import web
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

SECONDS = 0.15
TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (("look", {}), ("pay", {"amount": 5}))
"""What an agent's model calls, turn by turn, before it answers."""

Mood = Literal["well", "throttle", "refuse", "stall", "lie"]


class LoggedEndpoint:
    """Answers by `x`, in whatever mood it was put."""

    def __init__(self, log: Path) -> None:
        self.url = ""
        self.mood: Mood = "well"
        self._log = log

    def _note(self, what: str, call: str, run: str, x: int, item: str) -> None:
        at, pid = time.clock_gettime(time.CLOCK_MONOTONIC), os.getpid()
        self._write({"call": call, "what": what, "at": at, "pid": pid, "run": run, "x": x, "item": item})

    def _write(self, line: dict[str, Any]) -> None:
        with self._log.open("a") as log:
            log.write(f"{json.dumps(line)}\n")

    async def _height(self, run: str, x: int, n: int) -> float | web.Response:
        """What the call comes to, or how it is turned away."""
        call, item = uuid.uuid4().hex, f"s{n}"
        self._note("begun", call, run, x, item)
        over = "left"
        try:
            if self.mood == "throttle":
                over = "refused"
                return web.json_response({"error": "slower"}, status=429, headers={"Retry-After": "1"})
            if self.mood == "refuse":
                over = "failed"
                return web.json_response({"error": "broken"}, status=500)
            while self.mood == "stall":
                await asyncio.sleep(0.1)
            await asyncio.sleep(SECONDS)
            if self.mood == "lie":
                over = "lied"
                return web.Response(text="<html>All is well</html>", content_type="text/html")
            over = "answered"
            return 1 - abs(x - 700) / 1000 + n / 1000
        finally:
            self._note(over, call, run, x, item)

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        found = await self._height(asked["run"], asked["x"], asked["n"])
        return web.json_response({"height": found}) if isinstance(found, float) else found

    async def chat(self, request: web.Request) -> web.Response:
        run, x, n = (await request.json())["messages"][-1]["content"].split()
        found = await self._height(run, int(x), int(n))
        if not isinstance(found, float):
            return found
        message = {"role": "assistant", "content": "yes" if found > 0.4 + int(n) / 50 else "no"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    async def turn(self, request: web.Request) -> web.Response:
        """An agent's model: it looks, it pays, and it answers. What it has said is noted, turn by turn."""
        body = await request.json()
        told = [message["content"] for message in body["messages"] if message["role"] in ("system", "user")]
        (run, x), n = told[0].split(), int(told[1])
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        begun = time.clock_gettime(time.CLOCK_MONOTONIC)
        if self.mood == "throttle":
            return web.json_response({"error": "slower"}, status=429, headers={"Retry-After": "1"})
        if self.mood == "refuse":
            return web.json_response({"error": "broken"}, status=500)
        while self.mood == "stall":
            await asyncio.sleep(0.1)
        await asyncio.sleep(SECONDS)
        if self.mood == "lie":
            return web.Response(text="<html>All is well</html>", content_type="text/html")
        call = uuid.uuid4().hex
        line = {
            "call": call,
            "what": "turn",
            "at": begun,
            "until": time.clock_gettime(time.CLOCK_MONOTONIC),
            "pid": os.getpid(),
        }
        self._write({**line, "run": run, "x": int(x), "item": f"s{n}", "turn": turn})
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "yes" if 1 - abs(int(x) - 700) / 1000 > 0.4 + n / 50 else "no",
        }
        if turn < len(TOOLS):
            function = {"name": TOOLS[turn][0], "arguments": json.dumps(TOOLS[turn][1])}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    async def look(self, request: web.Request) -> web.Response:
        """A tool that may be called as often as one likes."""
        return web.json_response({"free": 3})

    def batched(self, body: dict[str, Any]) -> str:
        """What a request of a batch is answered; each is paid for."""
        run, x, n = body["messages"][-1]["content"].split()
        call = uuid.uuid4().hex
        for what in ("begun", "answered"):
            self._note(what, call, run, int(x), f"s{n}")
        return "yes" if 1 - abs(int(x) - 700) / 1000 > 0.4 + int(n) / 50 else "no"

    @activity.defn(name="theirs")
    async def theirs(self, call: dict[str, Any]) -> dict[str, Any]:
        given = call["configuration"]
        n = int(call["sample"]["id"][1:])
        called = uuid.uuid4().hex
        self._note("begun", called, given["run"], given["x"], call["sample"]["id"])
        await asyncio.sleep(SECONDS)
        self._note("answered", called, given["run"], given["x"], call["sample"]["id"])
        return {"value": {"height": 1 - abs(given["x"] - 700) / 1000 + n / 1000}, "tokens": 10, "cost": 0.001}


@asynccontextmanager
async def logged_endpoint(log: Path) -> AsyncIterator[LoggedEndpoint]:
    endpoint = LoggedEndpoint(log)
    app = web.Application()
    app.router.add_post("/answer", endpoint.answer)
    app.router.add_post("/v1/chat/completions", endpoint.chat)
    app.router.add_post("/agents/v1/chat/completions", endpoint.turn)
    app.router.add_get("/look", endpoint.look)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield endpoint
    finally:
        await runner.cleanup()


@asynccontextmanager
async def served_activity(client: Client, endpoint: LoggedEndpoint) -> AsyncIterator[None]:
    """Serve the activity on a queue of its own."""
    async with Worker(client, task_queue="theirs", activities=[endpoint.theirs], graceful_shutdown_timeout=timedelta(0)):
        yield
