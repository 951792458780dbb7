"""A server that speaks Anthropic's Message Batches, and Messages for the same questions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from tests.support.batched_provider import COMPLETION_TOKENS, PROMPT_TOKENS, Batch, BatchedProvider, Became

LABELS = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error", 503: "overloaded_error"}


class AnthropicBatchServer(BatchedProvider):
    """A batch carries nothing but its requests, and does not say which they are before it is over."""

    provider = "anthropic"

    async def make(self, request: web.Request) -> web.StreamResponse:
        _refuse_strangers(request)
        asked = await request.json()
        assert all(one["params"]["max_tokens"] > 0 and "stream" not in one["params"] for one in asked["requests"])
        assert all(len(one["custom_id"]) <= 64 for one in asked["requests"])
        return web.json_response(self._described(self.begun(requests=asked["requests"])))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        page, more = self.newest(request.query.get("after_id"), int(request.query.get("limit", 20)))
        described = [self._described(self.looked_at(one.batch_id) or one) for one in page]
        last = page[-1].batch_id if page else None
        return web.json_response({"data": described, "has_more": more, "first_id": None, "last_id": last})

    async def look(self, request: web.Request) -> web.StreamResponse:
        _refuse_strangers(request)
        batch = self.looked_at(request.match_info["id"])
        return self.error(404, "no such batch") if batch is None else web.json_response(self._described(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        batch = self.cancelled(request.match_info["id"])
        return self.error(400, "it is over") if batch is None else web.json_response(self._described(batch))

    async def content(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None or not batch.is_over:
            return self.error(404, "there are no results")
        lines = [one if isinstance(one, str) else json.dumps(one) for one in batch.results]
        return web.Response(text="".join(f"{line}\n" for line in lines), content_type="application/x-jsonl")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return web.json_response(_message(body, self.chatted(_chat(body))))

    # -- its words --------------------------------------------------------------------------------------------------------

    def custom_id_of(self, request: dict[str, Any]) -> str:
        return str(request["custom_id"]).partition("-")[0]

    def asked_in(self, request: dict[str, Any]) -> dict[str, Any]:
        return _chat(request["params"])

    def conclude(self, batch: Batch) -> None:
        results = [{"custom_id": one.request["custom_id"], "result": _result(one)} for one in self.became(batch)]
        batch.results = [*reversed(results), *batch.plan.garbage]  # nobody promised an order

    def error(self, status: int, message: str) -> web.Response:
        told = {"type": "error", "error": {"type": LABELS.get(status, "api_error"), "message": message}}
        return web.json_response(told, status=529 if status == 503 else status)

    def _described(self, batch: Batch) -> dict[str, Any]:
        kinds = [one["result"]["type"] for one in batch.results if isinstance(one, dict)]
        counts = {kind: kinds.count(kind) for kind in ("succeeded", "errored", "canceled", "expired")}
        counts["processing"] = len(batch.requests) - sum(counts.values())
        created = datetime.fromtimestamp(batch.created_at, UTC)
        status = "ended" if batch.is_over else "canceling" if batch.status == "cancelling" else "in_progress"
        return {
            "id": batch.batch_id,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": counts,
            "created_at": created.isoformat().replace("+00:00", "Z"),
            "expires_at": (created + timedelta(hours=24)).isoformat(),
            "ended_at": created.isoformat() if batch.is_over else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}/v1/messages/batches/{batch.batch_id}/results" if batch.is_over else None,
        }

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/messages/batches", self.make)
        app.router.add_get("/v1/messages/batches", self.listed)
        app.router.add_get("/v1/messages/batches/{id}", self.look)
        app.router.add_get("/v1/messages/batches/{id}/results", self.content)
        app.router.add_post("/v1/messages/batches/{id}/cancel", self.cancel)
        app.router.add_post("/v1/messages", self.chat)


def _refuse_strangers(request: web.Request) -> None:
    assert request.headers["authorization"].startswith("Bearer ") and request.headers["anthropic-version"]


def _chat(message: dict[str, Any]) -> dict[str, Any]:
    turns = [
        {"role": turn["role"], "content": "".join(block["text"] for block in turn["content"])} for turn in message["messages"]
    ]
    system = [{"role": "system", "content": message["system"]}] if message.get("system") else []
    return {"model": message["model"], "messages": [*system, *turns]}


def _message(asked: dict[str, Any], said: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": [{"type": "text", "text": said}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS},
    }


def _result(one: Became) -> dict[str, Any]:
    if one.never_run is not None:
        return {"type": "canceled" if one.never_run == "cancelled" else "expired"}
    if one.status is not None:
        error = {"type": LABELS.get(one.status, "api_error"), "message": "simulated"}
        return {"type": "errored", "error": {"type": "error", "error": error}}
    return {"type": "succeeded", "message": _message(one.request["params"], one.said or "")}
