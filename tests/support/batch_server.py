"""A real HTTP server that speaks OpenAI's Batch protocol, and chat for the same questions: files, batches, their states.

How a batch goes is said before it is made, in `plans`, one for each batch in the order in which they are made; without one it
is completed at the first look. Every request that is answered is counted: each is paid for.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web

PROMPT_TOKENS, COMPLETION_TOKENS = 10, 1


@dataclass
class Plan:
    """How one batch goes."""

    looks: int = 0
    """So many looks find it in progress before it ends."""
    ends: str = "completed"
    answers: int | None = None
    """Of an expired or failed batch, so many requests were answered. None: all."""
    statuses: dict[int, int] = field(default_factory=dict)
    """What is answered instead of 200, by the number of the request in its file."""
    silent: tuple[int, ...] = ()
    """Requests of which no file says anything."""
    forget_after: int | None = None
    """After so many looks, the server knows no such batch."""
    error: tuple[str, str] | None = None
    """Why the batch failed as a whole."""
    garbage: tuple[str, ...] = ()
    """Lines that stand in the file of answers, too."""
    held: bool = False
    """It goes on until somebody releases it, or cancels it."""


@dataclass
class Batch:
    number: int
    input_file: str
    metadata: dict[str, str]
    plan: Plan
    created_at: int
    status: str = "validating"
    looks: int = 0
    output_file: str | None = None
    error_file: str | None = None

    @property
    def batch_id(self) -> str:
        return f"batch_{self.number}"


class BatchServer:
    """Answers by `answer(body)`: a text, for what a chat request says."""

    def __init__(self, answer: Callable[[dict[str, Any]], str], folder: Path) -> None:
        self._answer = answer
        self._folder = folder
        self.url = ""
        self.plans: list[Plan] = []
        self.batches: dict[str, Batch] = {}
        self.asked = Counter[str]()
        self.paid = Counter[str]()
        """How often each request was answered in a batch, by its custom id."""
        self.chats: list[dict[str, Any]] = []
        self.released = False
        self.keeps_metadata = True
        self.stumbles: dict[str, list[str]] = {}
        """What goes wrong, by the name of a request: `lost` does it and cuts the connection, a number is a status."""
        self.before: Callable[[str], Any] = lambda _: None
        self.after: Callable[[str], Any] = lambda _: None
        self._numbers = itertools.count(1)

    # -- the protocol -----------------------------------------------------------------------------------------------------

    async def upload(self, request: web.Request) -> web.StreamResponse:
        reader = await request.multipart()
        file_id = f"file_{next(self._numbers)}"
        purpose = ""
        async for part in reader:
            assert isinstance(part, BodyPartReader)
            if part.name == "purpose":
                purpose = await part.text()
            elif part.name == "file":
                with self.path(file_id).open("wb") as file:
                    while piece := await part.read_chunk(1 << 16):
                        file.write(piece)
        assert purpose == "batch"
        return web.json_response({"id": file_id, "object": "file", "bytes": os.path.getsize(self.path(file_id))})

    async def make(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        assert asked["endpoint"] == "/v1/chat/completions"
        assert asked["completion_window"] == "24h"
        plan = self.plans.pop(0) if self.plans else Plan()
        batch = Batch(next(self._numbers), asked["input_file_id"], asked["metadata"], plan, int(time.time()))
        self.batches[batch.batch_id] = batch
        self._check(batch)
        return web.json_response(self._described(batch))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        newest = list(reversed(self.batches.values()))
        after = request.query.get("after")
        if after:
            newest = newest[[one.batch_id for one in newest].index(after) + 1 :]
        page = newest[: min(int(request.query.get("limit", 20)), 2)]  # small pages, so that there are several
        more = len(newest) > len(page)
        return web.json_response({"object": "list", "data": [self._described(one) for one in page], "has_more": more})

    async def look(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is not None:
            batch.looks += 1
            self._go_on(batch)
        if batch is None or (batch.plan.forget_after is not None and batch.looks > batch.plan.forget_after):
            return error(404, f"No batch found with id '{request.match_info['id']}'.")
        return web.json_response(self._described(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches[request.match_info["id"]]
        if batch.status not in ("validating", "in_progress"):
            return error(409, f"Cannot cancel a batch with status '{batch.status}'.")
        batch.plan.ends, batch.plan.held = "cancelled", False
        batch.plan.looks, batch.status = batch.looks + 1, "cancelling"
        return web.json_response(self._described(batch))

    async def content(self, request: web.Request) -> web.StreamResponse:
        path = self.path(request.match_info["id"])
        return web.FileResponse(path) if path.exists() else error(404, "No such File object")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.chats.append(body)
        return web.json_response(self._completion(body))

    # -- how batches go ---------------------------------------------------------------------------------------------------

    def path(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.jsonl"

    def requests_of(self, batch: Batch) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path(batch.input_file).read_text().splitlines()]

    def _check(self, batch: Batch) -> None:
        requests = self.requests_of(batch)
        assert len({one["custom_id"] for one in requests}) == len(requests) > 0
        assert len({one["body"]["model"] for one in requests}) == 1
        assert all(one["method"] == "POST" and one["url"] == "/v1/chat/completions" for one in requests)

    def _go_on(self, batch: Batch) -> None:
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return
        if batch.status != "cancelling":
            batch.status = "in_progress"
        if batch.looks <= batch.plan.looks or (batch.plan.held and not self.released):
            return
        batch.status = batch.plan.ends
        if batch.plan.error is None:
            self._answer_all(batch)

    def _answer_all(self, batch: Batch) -> None:
        plan, errors = batch.plan, list[Any]()
        answers: list[Any] = list(plan.garbage)
        requests = self.requests_of(batch)
        answered = len(requests) if plan.answers is None else plan.answers
        for place, one in enumerate(requests):
            line: dict[str, Any] = {"id": f"batch_req_{place}", "custom_id": one["custom_id"], "response": None, "error": None}
            if place in plan.silent:
                continue
            if place >= answered:
                code = "batch_cancelled" if plan.ends == "cancelled" else "batch_expired"
                errors.append({**line, "error": {"code": code, "message": "This request was not executed."}})
            elif place in plan.statuses:
                status = plan.statuses[place]
                said = {"error": {"message": "simulated", "type": "server_error", "code": None}}
                errors.append({**line, "response": {"status_code": status, "request_id": "r", "body": said}})
            else:
                self.paid[one["custom_id"]] += 1
                body = self._completion(one["body"])
                answers.append({**line, "response": {"status_code": 200, "request_id": "r", "body": body}})
        answers.reverse()  # nobody promised an order
        batch.output_file = self._written(answers)
        batch.error_file = self._written(errors)

    def _written(self, lines: list[Any]) -> str | None:
        if not lines:
            return None
        file_id = f"file_{next(self._numbers)}"
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        self.path(file_id).write_text(text + "\n")
        return file_id

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        }
        message = {"role": "assistant", "content": self._answer(body)}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage, "model": body["model"]}

    def _described(self, batch: Batch) -> dict[str, Any]:
        error = batch.plan.error if batch.status == "failed" else None
        return {
            "id": batch.batch_id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "status": batch.status,
            "input_file_id": batch.input_file,
            "output_file_id": batch.output_file,
            "error_file_id": batch.error_file,
            "created_at": batch.created_at,
            "metadata": batch.metadata if self.keeps_metadata else None,
            "request_counts": {"total": 0, "completed": batch.looks, "failed": 0},
            "errors": None if error is None else {"object": "list", "data": [{"code": error[0], "message": error[1]}]},
        }

    # -- serving it -------------------------------------------------------------------------------------------------------

    @web.middleware
    async def _stumbling(self, request: web.Request, handler: Any) -> web.StreamResponse:
        name = handler.__name__
        self.asked[name] += 1
        stumble = self.stumbles[name].pop(0) if self.stumbles.get(name) else ""
        if stumble.isdigit():
            return error(int(stumble), "simulated")
        await _awaited(self.before(name))
        response: web.StreamResponse = await handler(request)
        await _awaited(self.after(name))
        if stumble == "lost":
            assert request.transport is not None
            request.transport.abort()
        return response

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._stumbling], client_max_size=1 << 30)
        app.router.add_post("/v1/files", self.upload)
        app.router.add_get("/v1/files/{id}/content", self.content)
        app.router.add_post("/v1/batches", self.make)
        app.router.add_get("/v1/batches", self.listed)
        app.router.add_get("/v1/batches/{id}", self.look)
        app.router.add_post("/v1/batches/{id}/cancel", self.cancel)
        app.router.add_post("/v1/chat/completions", self.chat)
        return app


async def _awaited(given: Any) -> None:
    if asyncio.iscoroutine(given):
        await given


def error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status=status)


@asynccontextmanager
async def batch_server(answer: Callable[[dict[str, Any]], str], folder: Path) -> AsyncIterator[BatchServer]:
    """The server, for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    server = BatchServer(answer, folder)
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()
