"""Real HTTP servers that speak the batch protocols of providers, and chat for the same questions. The first is OpenAI's."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import BodyPartReader, web

from tests.support.anthropic_batches import AnthropicBatchServer
from tests.support.batched_provider import COMPLETION_TOKENS, PROMPT_TOKENS, Batch, BatchedProvider
from tests.support.batched_provider import Plan as Plan
from tests.support.gemini_batches import GeminiBatchServer


class BatchServer(BatchedProvider):
    """OpenAI's: files, batches, their states."""

    provider = "openai"

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
        batch = self.begun(input_file=asked["input_file_id"], metadata=asked["metadata"])
        requests = self.requests_of(batch)
        assert len({one["body"]["model"] for one in requests}) == 1
        assert all(one["method"] == "POST" and one["url"] == "/v1/chat/completions" for one in requests)
        return web.json_response(self._described(batch))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        page, more = self.newest(request.query.get("after"), int(request.query.get("limit", 20)))
        return web.json_response({"object": "list", "data": [self._described(one) for one in page], "has_more": more})

    async def look(self, request: web.Request) -> web.StreamResponse:
        batch = self.looked_at(request.match_info["id"])
        if batch is None:
            return self.error(404, f"No batch found with id '{request.match_info['id']}'.")
        return web.json_response(self._described(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.cancelled(request.match_info["id"])
        return self.error(409, "Cannot cancel it.") if batch is None else web.json_response(self._described(batch))

    async def content(self, request: web.Request) -> web.StreamResponse:
        path = self.path(request.match_info["id"])
        return web.FileResponse(path) if path.exists() else self.error(404, "No such File object")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return web.json_response(_completion(body, self.chatted(body)))

    # -- its words --------------------------------------------------------------------------------------------------------

    def path(self, file_id: str) -> Path:
        return self._folder / f"{file_id}.jsonl"

    def requests_of(self, batch: Batch) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path(batch.input_file).read_text().splitlines()]

    def custom_id_of(self, request: dict[str, Any]) -> str:
        return str(request["custom_id"])

    def asked_in(self, request: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = request["body"]
        return body

    def conclude(self, batch: Batch) -> None:
        answers: list[Any] = list(batch.plan.garbage)
        errors = list[Any]()
        for one in self.became(batch):
            line: dict[str, Any] = {"id": "r", "custom_id": one.request["custom_id"], "response": None, "error": None}
            if one.never_run is not None:
                errors.append({**line, "error": {"code": f"batch_{one.never_run}", "message": "It was not executed."}})
            elif one.status is not None:
                said = {"error": {"message": "simulated", "type": "server_error", "code": None}}
                errors.append({**line, "response": {"status_code": one.status, "request_id": "r", "body": said}})
            else:
                body = _completion(one.request["body"], one.said or "")
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

    def error(self, status: int, message: str) -> web.Response:
        told = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
        return web.json_response(told, status=status)

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

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/files", self.upload)
        app.router.add_get("/v1/files/{id}/content", self.content)
        app.router.add_post("/v1/batches", self.make)
        app.router.add_get("/v1/batches", self.listed)
        app.router.add_get("/v1/batches/{id}", self.look)
        app.router.add_post("/v1/batches/{id}/cancel", self.cancel)
        app.router.add_post("/v1/chat/completions", self.chat)


def _completion(body: dict[str, Any], said: str) -> dict[str, Any]:
    usage = {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": COMPLETION_TOKENS,
        "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    }
    message = {"role": "assistant", "content": said}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage, "model": body["model"]}


SERVERS: dict[str, type[BatchedProvider]] = {
    kind.provider: kind for kind in (BatchServer, AnthropicBatchServer, GeminiBatchServer)
}
PATHS = {"openai": "/v1", "google": "/v1beta"}


@asynccontextmanager
async def provider_of_batches(
    provider: str, answer: Callable[[dict[str, Any]], str], folder: Path
) -> AsyncIterator[BatchedProvider]:
    """A server in the protocol of this provider, for as long as the block lasts."""
    folder.mkdir(parents=True, exist_ok=True)
    server = SERVERS[provider](answer, folder)
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}{PATHS.get(provider, '')}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def batch_server(answer: Callable[[dict[str, Any]], str], folder: Path) -> AsyncIterator[BatchServer]:
    """OpenAI's."""
    async with provider_of_batches("openai", answer, folder) as server:
        assert isinstance(server, BatchServer)
        yield server
