"""A model server that speaks Google's generateContent."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.support.model_endpoints import CACHED, THOUGHT, ModelEndpoint, called, halves, offered, turn_of

SEAL = "c2VhbGVkLWJ5LWdvb2dsZQ=="
"""Of what was thought before a call of a tool; it has to come back with the call."""

LABELS = {
    "throttled": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "broken": "INTERNAL",
    "not_found": "NOT_FOUND",
}


class GeminiEndpoint(ModelEndpoint):
    """Gemini's protocol, as far as chats and embeddings go."""

    routes = ("/v1beta/models/{call}", "/v1beta/models")

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        return request.match_info["call"].endswith(":streamGenerateContent")

    def chat(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        assert request.headers["x-goog-api-key"]
        system = [{"role": "system", "content": _text(body["systemInstruction"])}] if "systemInstruction" in body else []
        turns = [message for turn in body["contents"] for message in _messages(turn)]
        functions = [one for tool in body.get("tools", []) for one in tool["functionDeclarations"]]
        tools = [(one["name"], one.get("description", ""), one["parametersJsonSchema"]) for one in functions]
        model = request.match_info["call"].rpartition(":")[0]
        return {"model": model, "messages": [*system, *turns], **offered(tools), **_form(body)}

    def whole(self, said: str, read: int, written: int) -> dict[str, Any]:
        parts = [{"text": "hm", "thought": True}, {"text": said}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage(read, written)}

    def calling(self, name: str, arguments: dict[str, Any], read: int, written: int) -> dict[str, Any]:
        parts = [{"functionCall": {"name": name, "args": arguments}, "thoughtSignature": SEAL}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage(read, written)}

    def pieces(self, said: str, read: int, written: int) -> list[tuple[str, dict[str, Any]]]:
        chunks: list[dict[str, Any]] = [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": piece}]}, "index": 0}]} for piece in halves(said)
        ]
        chunks[-1]["candidates"][0]["finishReason"] = "STOP"
        chunks[-1]["usageMetadata"] = usage(read, written)
        return [("", chunk) for chunk in chunks]

    def refusal(self, status: int, label: str, message: str) -> web.Response:
        delay = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.02s"}] if status in (429, 503) else []
        told = {"error": {"code": status, "message": message, "status": LABELS.get(label, label), "details": delay}}
        return web.json_response(told, status=status)

    def listing(self) -> dict[str, Any]:
        return {"models": [{"name": f"models/{model}"} for model in self.models]}


def usage(read: int, written: int) -> dict[str, Any]:
    """What was thought is counted apart from what was said."""
    return {
        "promptTokenCount": read,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": written - THOUGHT,
        "thoughtsTokenCount": THOUGHT,
        "totalTokenCount": read + written,
    }


def _text(content: dict[str, Any]) -> str:
    return "".join(part["text"] for part in content["parts"] if "text" in part)


def _messages(turn: dict[str, Any]) -> list[dict[str, Any]]:
    calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
    results = [part["functionResponse"] for part in turn["parts"] if "functionResponse" in part]
    return turn_of(
        "assistant" if turn["role"] == "model" else "user",
        _text(turn),
        [called(call["name"], call["name"], call["args"]) for call in calls],
        [(result["name"], result["response"]["result"]) for result in results],
    )


def _form(body: dict[str, Any]) -> dict[str, Any]:
    schema = body.get("generationConfig", {}).get("responseJsonSchema")
    if schema is None:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "held", "schema": schema}}}
