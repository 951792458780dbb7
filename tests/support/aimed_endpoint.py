"""Targets of aimed kills that live in the test's own process: an HTTP endpoint, a chat model, somebody else's activity."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from temporalio import activity
from temporalio.worker import Worker

from clients.embedded.stack import stack_state
from clients.temporal import connect
from tests.support.plugins.aimed import SECONDS

STEPS_UNTIL_NOTED = 50
"""Of the event loop, between the last byte of a request and the note of its call."""


class Server:
    """Answers like `aimed.walks`, and notes every call in the log of the run that is on."""

    def __init__(self) -> None:
        self.url = ""
        self.calls = Path()
        self._runner: web.AppRunner | None = None
        self._listening = socket.socket()

    async def open(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_post("/answer", self.answer)
        app.router.add_post("/v1/chat/completions", self.chat)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        self._listening.bind(("127.0.0.1", 0))
        await web.SockSite(self._runner, self._listening).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def hear(self) -> None:
        """Return when everything that was sent is read, and noted: what arrives together with its sender's end is not."""
        while self._is_unread():
            await asyncio.sleep(0)
        for _ in range(STEPS_UNTIL_NOTED):
            await asyncio.sleep(0)

    def _is_unread(self) -> bool:
        assert self._runner is not None
        assert self._runner.server is not None
        callers = [
            connection.transport.get_extra_info("socket")
            for connection in self._runner.server.connections
            if connection.transport is not None
        ]
        return bool(select.select([self._listening, *callers], [], [], 0)[0])

    async def called(self, x: int, name: str) -> float:
        self._note(f"start {x} {name}")
        await asyncio.sleep(SECONDS)
        self._note(f"end {x} {name}")
        return 1 - abs(x - 700) / 1000 + len(name) / 1000

    def _note(self, line: str) -> None:
        with self.calls.open("a") as log:
            log.write(f"{line}\n")

    async def answer(self, request: web.Request) -> web.Response:
        asked = await request.json()
        return web.json_response({"height": await self.called(asked["x"], f"s{asked['n']}")})

    async def chat(self, request: web.Request) -> web.Response:
        x, n = (await request.json())["messages"][-1]["content"].split()
        height = await self.called(int(x), f"s{n}")
        said = "yes" if height > 0.4 + int(n) / 500 else "no"
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})

    @activity.defn(name="theirs")
    async def theirs(self, call: dict[str, Any]) -> dict[str, Any]:
        height = await self.called(call["configuration"]["x"], call["sample"]["id"])
        return {"value": {"height": height}, "tokens": 10, "cost": 0.001}


@asynccontextmanager
async def endpoint() -> AsyncIterator[Server]:
    server = Server()
    await server.open()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def theirs(home: Path, server: Server) -> AsyncIterator[None]:
    """Serve the activity on the servers of this home, from when they are there."""
    serving = asyncio.create_task(_serve(home, server))
    try:
        yield
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def _serve(home: Path, server: Server) -> None:
    while (addresses := stack_state(home).addresses) is None:
        await asyncio.sleep(0.05)
    while True:
        try:
            client = await connect(addresses.temporal_address)
            break
        except RuntimeError:
            await asyncio.sleep(0.1)
    async with Worker(client, task_queue="theirs", activities=[server.theirs], graceful_shutdown_timeout=timedelta(0)):
        await asyncio.Event().wait()
