"""Putting an answer on the wire: in one body or as a stream, honestly or as a test demands."""

import asyncio
import json
import math
from typing import Any

from aiohttp import web

from clients.demo.injected_faults import Lie, Rule
from clients.demo.protocol import Answer

_FOREVER = 24 * 3600.0
_IMPOSTOR = "simulated-impostor"
_CHATTER = "Well, that is a matter of taste, is it not?"


async def deliver(
    request: web.Request, answer: Answer, *, stream: bool, include_usage: bool, fault: Rule | None, delay: float
) -> web.StreamResponse:
    """Send the answer. Raises ConnectionResetError if a fault cut the connection."""
    midway = stream and fault is not None and fault.after_chunks is not None
    if fault is not None and not midway:
        await _suffer(request, fault)
    if stream:
        return await _stream(request, answer, include_usage, fault, delay)
    if delay:
        await asyncio.sleep(delay)
    lie = fault.lie if fault else None
    body = _payload(answer.body(), lie)
    if lie == "truncated_stream":
        return await _half(request, body)
    return web.Response(body=body, content_type="application/json")


async def _suffer(request: web.Request, fault: Rule) -> None:
    if fault.stall is not None:
        await asyncio.sleep(_FOREVER if fault.stall is True else fault.stall)
    if fault.disconnect:
        _cut(request)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("the simulated server was told to disconnect")


async def _half(request: web.Request, body: bytes) -> web.StreamResponse:
    """Promise the whole body, send half of it, hang up."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()
    raise ConnectionResetError("the simulated server was told to truncate its answer")


async def _stream(
    request: web.Request, answer: Answer, include_usage: bool, fault: Rule | None, delay: float
) -> web.StreamResponse:
    lie = fault.lie if fault else None
    chunks = list(answer.chunks(include_usage=include_usage))
    kept = chunks[: max(1, len(chunks) // 2)] if lie == "truncated_stream" else chunks
    halfway = len(kept) // 2
    if delay:
        await asyncio.sleep(delay / 2)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for index, chunk in enumerate(kept):
        if delay and index == halfway:
            await asyncio.sleep(delay / 2)
        if fault is not None and fault.after_chunks == index:
            await _suffer(request, fault)
        await response.write(b"data: " + _payload(chunk, lie) + b"\n\n")
    if lie != "truncated_stream":
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _payload(payload: dict[str, Any], lie: Lie | None) -> bytes:
    """The JSON of a body or chunk, with the lie in it."""
    if lie == "empty_choices":
        payload = {**payload, "choices": []}
    elif lie == "wrong_model":
        payload = {**payload, "model": _IMPOSTOR}
    elif lie == "no_usage":
        payload = {key: value for key, value in payload.items() if key != "usage"}
    elif lie == "nan_usage" and payload.get("usage"):
        nothing = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), math.nan)
        payload = {**payload, "usage": {**payload["usage"], **nothing}}
    elif lie == "null_content":
        payload = {**payload, "choices": [_with_content(None, choice) for choice in payload["choices"]]}
    elif lie == "prose":
        payload = {**payload, "choices": [_with_content(_CHATTER, choice) for choice in payload["choices"]]}
    text = json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")
    return text[: len(text) // 2] if lie == "malformed_json" else text


def _with_content(content: str | None, choice: dict[str, Any]) -> dict[str, Any]:
    part = "message" if "message" in choice else "delta"
    return {**choice, part: {**choice[part], "content": content}}
