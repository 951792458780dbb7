"""A model server that speaks Anthropic's Messages."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.support.model_endpoints import CACHED, THOUGHT, ModelEndpoint, called, halves, offered, turn_of

SEAL = "sealed-by-anthropic"
"""Of what was thought before a call of a tool; it has to come back with the call."""

LABELS = {
    "throttled": "rate_limit_error",
    "overloaded": "overloaded_error",
    "broken": "api_error",
    "not_found": "not_found_error",
}


class AnthropicEndpoint(ModelEndpoint):
    """Anthropic's protocol, as far as chats go. Where it has too much to do, its status is 529."""

    routes = ("/v1/messages", "/v1/models")

    def chat(self, request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
        assert body["max_tokens"] > 0 and request.headers["anthropic-version"] and request.headers["authorization"]
        told = body.get("system", "")
        text = told if isinstance(told, str) else "\n\n".join(block["text"] for block in told)
        system = [{"role": "system", "content": text}] if text else []
        turns = [message for turn in body["messages"] for message in _messages(turn)]
        tools = [(tool["name"], tool.get("description", ""), tool["input_schema"]) for tool in body.get("tools", [])]
        return {"model": body["model"], "messages": [*system, *turns], **offered(tools), **_form(body)}

    def whole(self, said: str, read: int, written: int) -> dict[str, Any]:
        content = [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": said}]
        return {**self._message(), "content": content, "stop_reason": "end_turn", "usage": usage(read, written)}

    def calling(self, name: str, arguments: dict[str, Any], read: int, written: int) -> dict[str, Any]:
        call = {"type": "tool_use", "id": f"toolu-{name}", "name": name, "input": arguments}
        content = [{"type": "thinking", "thinking": "hm", "signature": SEAL}, call]
        return {**self._message(), "content": content, "stop_reason": "tool_use", "usage": usage(read, written)}

    def _message(self) -> dict[str, Any]:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "simulated", "content": [], "stop_reason": None}

    def pieces(self, said: str, read: int, written: int) -> list[tuple[str, dict[str, Any]]]:
        begun = {**self._message(), "usage": {**usage(read, 1)}}
        events: list[tuple[str, dict[str, Any]]] = [
            ("message_start", {"message": begun}),
            ("ping", {}),
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ]
        events += [
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}}) for piece in halves(said)
        ]
        spent = {name: count for name, count in usage(read, written).items() if name.startswith("output")}
        events += [
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": spent}),
            ("message_stop", {}),
        ]
        return [(name, {"type": name, **event}) for name, event in events]

    def refusal(self, status: int, label: str, message: str) -> web.Response:
        told = {"type": "error", "error": {"type": LABELS.get(label, label), "message": message}}
        headers = {"retry-after": "0.02"} if status == 429 else {}
        return web.json_response(told, status=529 if status == 503 else status, headers=headers)

    def listing(self) -> dict[str, Any]:
        return {"data": [{"type": "model", "id": model} for model in self.models], "has_more": False}


def usage(read: int, written: int) -> dict[str, Any]:
    """What came from the cache is counted apart from what was read."""
    return {
        "input_tokens": read - CACHED,
        "cache_read_input_tokens": CACHED,
        "cache_creation_input_tokens": 0,
        "output_tokens": written,
        "output_tokens_details": {"thinking_tokens": THOUGHT},
    }


def _messages(turn: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = turn["content"]
    calls = [called(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    results = [(block["tool_use_id"], _text(block["content"])) for block in blocks if block["type"] == "tool_result"]
    return turn_of(turn["role"], _text(blocks), calls, results)


def _text(blocks: list[dict[str, Any]]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _form(body: dict[str, Any]) -> dict[str, Any]:
    held = body.get("output_config", {}).get("format")
    if held is None:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "held", "schema": held["schema"]}}}
