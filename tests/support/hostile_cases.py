"""Hostile requests, a line long where they are listed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.hostile_harness import as_json, raw, spec


class Case(NamedTuple):
    """What is sent, and what the message must say: where it is wrong, and what to do."""

    sent: tuple[Any, ...]
    said: tuple[str, ...]


def wrong(*said: str, **parts: Any) -> Case:
    """A spec with some parts replaced."""
    return Case((as_json(spec(**parts)),), said)


def without(name: str, *said: str) -> Case:
    return Case((as_json({key: value for key, value in spec().items() if key != name}),), said)


def payload(data: bytes | str, *said: str, encoding: str | None = "json/plain", **metadata: str) -> Case:
    return Case((raw(data, encoding, **metadata),), said)


def patched(before: str, after: str, *said: str) -> Case:
    """The spec's JSON text with a piece replaced, for what no JSON writer would write."""
    text = json.dumps(spec())
    assert before in text
    return Case((raw(text.replace(before, after)),), said)


def chat(**parts: Any) -> dict[str, Any]:
    return {"kind": "chat", "model": "m", "messages": [{"role": "user", "content": "{{input}}"}]} | parts


def text(value: str, **parts: Any) -> dict[str, Any]:
    return {"prompt": {"value": value, "change": "text", **parts}}


def number(**parts: Any) -> dict[str, Any]:
    return {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000} | parts}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def target(ref: str) -> dict[str, str]:
    return {"kind": "python", "ref": ref}


def scorers(ref: str) -> list[dict[str, str]]:
    return [{"kind": "python", "name": "height", "ref": ref}]


def items(*given: Any) -> dict[str, Any]:
    return {"items": list(given)}
