"""A model whose samples say what it does, turn by turn: it answers, or calls tools."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.support.http_endpoints import Asked

SCRIPT = {"role": "user", "content": "{{input.script}}"}
"""The message that hands a sample's script to the model."""


def turn_of(body: Any) -> int:
    """Which turn the model is asked for, from 0 on."""
    return sum(1 for message in body["messages"] if message["role"] == "assistant")


def script_in(body: Any) -> list[Any]:
    """The script that a request carries."""
    told = next(message["content"] for message in body["messages"] if message["role"] == "user")
    script: list[Any] = json.loads(told)
    return script


def results_in(body: Any) -> list[str]:
    """What tools gave so far."""
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def scripted(asked: Asked) -> web.Response:
    """The next turn of the script: a text, a list of calls `[tool, arguments]`, or `results`, which are told. A turn takes 10
    tokens in and 5 out."""
    step = script_in(asked.body)[turn_of(asked.body)]
    message: dict[str, Any] = {"role": "assistant", "content": " ".join(results_in(asked.body)) if step == "results" else step}
    if isinstance(step, list):
        functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in step]
        calls = [{"id": f"x{n}", "type": "function", "function": function} for n, function in enumerate(functions)]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    finish = "tool_calls" if isinstance(step, list) else "stop"
    return web.json_response({"choices": [{"index": 0, "finish_reason": finish, "message": message}], "usage": usage})
