"""A server that speaks Google's batches of Gemini, and generateContent for the same questions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.support.batched_provider import COMPLETION_TOKENS, PROMPT_TOKENS, Batch, BatchedProvider, Became

CODES = {400: (3, "INVALID_ARGUMENT"), 404: (5, "NOT_FOUND"), 429: (8, "RESOURCE_EXHAUSTED"), 503: (14, "UNAVAILABLE")}
INTERNAL = (13, "INTERNAL")
STATES = {
    "validating": "PENDING",
    "in_progress": "RUNNING",
    "cancelling": "RUNNING",
    "completed": "SUCCEEDED",
    "cancelled": "CANCELLED",
}


class GeminiBatchServer(BatchedProvider):
    """A batch has a name of its sender's, and all its results in one reply."""

    provider = "google"

    def name_of(self, request: web.Request, handler: Any) -> str:
        """Who looks again at a batch that is over wants its results."""
        batch = self.batches.get(request.match_info.get("id", ""))
        if handler.__name__ == "look" and batch is not None and batch.is_over:
            return "content"
        if handler.__name__ != "act":
            return super().name_of(request, handler)
        return "make" if request.match_info["call"].endswith(":batchGenerateContent") else "chat"

    async def act(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["x-goog-api-key"]
        model, _, verb = request.match_info["call"].rpartition(":")
        asked = await request.json()
        if verb == "batchGenerateContent":
            given = asked["batch"]
            requests = given["inputConfig"]["requests"]["requests"]
            batch = self.begun(requests=[{**one, "model": model} for one in requests], metadata={"name": given["displayName"]})
            return web.json_response(self._described(batch))
        return web.json_response(_content(self.chatted(_chat(model, asked))))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        page, more = self.newest(request.query.get("pageToken"), int(request.query.get("pageSize", 20)))
        following = {"nextPageToken": page[-1].batch_id} if more else {}
        return web.json_response({"operations": [self._described(one) for one in page], **following})

    async def look(self, request: web.Request) -> web.StreamResponse:
        batch = self.looked_at(request.match_info["id"])
        return self.error(404, "no such batch") if batch is None else web.json_response(self._described(batch))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        return self.error(400, "it is over") if self.cancelled(request.match_info["id"]) is None else web.json_response({})

    # -- its words --------------------------------------------------------------------------------------------------------

    def custom_id_of(self, request: dict[str, Any]) -> str:
        return str(request["metadata"]["key"])

    def asked_in(self, request: dict[str, Any]) -> dict[str, Any]:
        return _chat(request["model"], request["request"])

    def conclude(self, batch: Batch) -> None:
        results = [{"metadata": one.request["metadata"], **_result(one)} for one in self.became(batch)]
        is_without = batch.status == "expired" and batch.plan.answers == 0
        batch.results = [] if is_without else [*batch.plan.garbage, *results]

    def error(self, status: int, message: str) -> web.Response:
        told = {"code": status, "message": message, "status": CODES.get(status, INTERNAL)[1]}
        return web.json_response({"error": told}, status=status)

    def _described(self, batch: Batch) -> dict[str, Any]:
        created = datetime.fromtimestamp(batch.created_at, UTC).isoformat().replace("+00:00", "Z")
        # What expired in part is told request by request.
        state = STATES.get(batch.status, "SUCCEEDED" if batch.status == "expired" and batch.results else batch.status.upper())
        metadata: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "name": f"batches/{batch.batch_id}",
            "model": f"models/{batch.requests[0]['model']}",
            "displayName": batch.metadata["name"] if self.keeps_metadata else "batch",
            "createTime": created,
            "updateTime": created,
            "batchStats": {"requestCount": str(len(batch.requests)), "successfulRequestCount": str(batch.looks)},
            "state": f"BATCH_STATE_{state}",
        }
        told: dict[str, Any] = {"name": f"batches/{batch.batch_id}", "metadata": metadata, "done": batch.is_over}
        if batch.status == "failed" and batch.plan.error is not None:
            told["error"] = {"code": int(batch.plan.error[0]), "message": batch.plan.error[1]}
        elif batch.is_over:
            metadata["output"] = {"inlinedResponses": {"inlinedResponses": batch.results}}
            told["response"] = {"@type": "GenerateContentBatchOutput", **metadata["output"]}
        return told

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1beta/models/{call}", self.act)
        app.router.add_get("/v1beta/batches", self.listed)
        app.router.add_get("/v1beta/batches/{id}", self.look)
        app.router.add_post("/v1beta/batches/{id}:cancel", self.cancel)


def _chat(model: str, asked: dict[str, Any]) -> dict[str, Any]:
    turns = [{"role": "assistant" if turn["role"] == "model" else "user", "content": _text(turn)} for turn in asked["contents"]]
    system = [{"role": "system", "content": _text(asked["systemInstruction"])}] if "systemInstruction" in asked else []
    return {"model": model, "messages": [*system, *turns]}


def _text(content: dict[str, Any]) -> str:
    return "".join(part["text"] for part in content["parts"])


def _content(said: str) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": said}]}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": PROMPT_TOKENS,
        "candidatesTokenCount": COMPLETION_TOKENS,
        "totalTokenCount": PROMPT_TOKENS + COMPLETION_TOKENS,
    }
    return {"candidates": [candidate], "usageMetadata": usage}


def _result(one: Became) -> dict[str, Any]:
    if one.never_run is not None:
        return {"error": {"code": 1 if one.never_run == "cancelled" else 4, "message": "it was not run"}}
    if one.status is not None:
        return {"error": {"code": CODES.get(one.status, INTERNAL)[0], "message": "simulated"}}
    return {"response": _content(one.said or "")}
