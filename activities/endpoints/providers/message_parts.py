"""Messages in the form of OpenAI's chat completions, read for providers that have forms of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from activities.endpoints.chat_protocol import THOUGHTS, Thoughts
from activities.targets.faults import NotSent

_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file that is sent with its content."""

    media_type: str
    content: str
    """In base64."""


@dataclass(frozen=True, slots=True)
class LinkPart:
    """An image that the provider fetches."""

    url: str


Part = str | FilePart | LinkPart | Mapping[str, Any]
"""What is none of the others is in the provider's own form, and sent as it is."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model made earlier in the conversation."""

    id: str
    name: str
    arguments: Mapping[str, Any]


def parts_of(content: Any) -> Iterator[Part]:
    """The parts of a message."""
    if content is None or content == "":
        return
    for part in content if isinstance(content, list) else [content]:
        yield _part(part)


def _part(part: Any) -> Part:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise NotSent("a message's content is neither a text nor a list of parts")
    match part.get("type"):
        case "text" if set(part) == {"type", "text"}:
            return str(part["text"])
        case "image_url":
            image = part.get("image_url")
            return _file(image.get("url") if isinstance(image, Mapping) else image)
        case "file" if isinstance(part.get("file"), Mapping):
            return _file(part["file"].get("file_data"))
    return part


def _file(url: Any) -> FilePart | LinkPart:
    if not isinstance(url, str):
        raise NotSent("a part of a message names no file")
    data = _DATA_URL.fullmatch(url)
    return LinkPart(url) if data is None else FilePart(data[1], data[2])


def text_of(content: Any) -> str:
    """The texts of a message, one after the other. Instructions to a model hold nothing else."""
    parts = [*parts_of(content)]
    if any(not isinstance(part, str) for part in parts):
        raise NotSent("a system message has parts that are no text; this provider takes none there")
    return "\n".join(str(part) for part in parts)


def tool_calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    """The calls that a message of the assistant's made."""
    return [_tool_call(call) for call in message.get("tool_calls") or []]


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise NotSent("a message has a tool call without a function")
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, Mapping):
        raise NotSent(f"a message has a call of tool {function.get('name')!r} whose arguments are no JSON object")
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments)


def with_thoughts(blocks: list[Any], message: Mapping[str, Any]) -> list[Any]:
    """The blocks of a message with what was thought between them, in the places that it had."""
    thought = list(blocks)
    for place, block in message.get(THOUGHTS) or []:
        thought.insert(place, block)
    return thought


def thoughts_in(blocks: list[Any], is_thought: Callable[[Any], bool], *, calls: bool) -> dict[str, Thoughts]:
    """What is to be kept of an answer's blocks. Where no tool was called nobody asks for it again."""
    found = [[place, block] for place, block in enumerate(blocks) if is_thought(block)] if calls else []
    return {THOUGHTS: Thoughts(found)} if found else {}


def schema_of(response_format: Any) -> Mapping[str, Any] | None:
    """The JSON schema that an answer is held to, if it is held to one."""
    named = response_format.get("json_schema") if isinstance(response_format, Mapping) else None
    schema = named.get("schema") if isinstance(named, Mapping) else None
    return schema if isinstance(schema, Mapping) else None


def is_json(response_format: Any) -> bool:
    """Whether an answer is held to be JSON."""
    return isinstance(response_format, Mapping) and response_format.get("type") in ("json_object", "json_schema")


def listed(value: Any) -> list[Any]:
    """A list, also of one that is written without."""
    return list(value) if isinstance(value, list | tuple) else [value]
