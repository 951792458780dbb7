"""Every text of a target in which placeholders are substituted, and the messages that a splice stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.model.spec.targets.chat import ChatStep, ChatTarget, Message
from workflows.model.spec.targets.http import HttpTarget

ROLES = ("system", "user", "assistant", "developer", "tool", "function")


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A text with placeholders."""

    where: str
    """The field of the spec."""
    text: str
    steps: tuple[str, ...] | None = None
    """The steps whose answers it may refer to; None where there are none."""
    of_json: bool = False
    """Whether it is part of a JSON template, where `{{factors}}` is the whole configuration."""
    is_splice: bool = False


def target_texts(target: object) -> Iterator[PlacedText]:
    if isinstance(target, ChatTarget):
        yield from _chat_texts(target)
    elif isinstance(target, HttpTarget):
        yield PlacedText("target.url", target.url)
        for name, text in target.headers.items():
            yield PlacedText(f"target.headers.{name}", text)
        if target.method != "GET":
            yield from _within("target.body", target.body, None, of_json=True)


def _chat_texts(target: ChatTarget) -> Iterator[PlacedText]:
    before: list[str] = []
    if target.messages is not None:
        yield from _messages("target", target.requests[0], None)
    for index, step in enumerate(target.steps or []):
        where, known = f"target.steps[{index}]", tuple(before)
        yield from _messages(where, step, known)
        if step.model is not None:
            yield PlacedText(f"{where}.model", step.model, known)
        yield from _within(f"{where}.parameters", step.parameters, known)
        before.append(step.name)
    if target.steps is None or any(step.model is None for step in target.steps):
        yield PlacedText("target.model", target.model)
    yield from _within("target.parameters", target.parameters, None)
    if target.output is not None:
        yield from _within("target.output", target.output, tuple(before), of_json=True)


def _messages(where: str, request: ChatStep, steps: tuple[str, ...] | None) -> Iterator[PlacedText]:
    for index, entry in enumerate(request.messages):
        if isinstance(entry, Message):
            yield PlacedText(f"{where}.messages[{index}].content", entry.content, steps)
        else:
            yield PlacedText(f"{where}.messages[{index}].splice", entry.splice, steps, is_splice=True)


def _within(where: str, value: object, steps: tuple[str, ...] | None, *, of_json: bool = False) -> Iterator[PlacedText]:
    if isinstance(value, str):
        yield PlacedText(where, value, steps, of_json)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _within(f"{where}.{key}", part, steps, of_json=of_json)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _within(f"{where}[{index}]", part, steps, of_json=of_json)


def spliced_messages(value: Any) -> list[dict[str, Any]]:
    """The messages that stand where a splice was. Raises ValueError, which says what is wrong with them."""
    if not isinstance(value, list) or not value:
        raise ValueError("is no list of messages; give [{role: user, content: …}, …]")
    for index, message in enumerate(value):
        if not isinstance(message, Mapping) or message.get("role") not in ROLES:
            raise ValueError(f"[{index}] is no message; give {{role: …, content: …}}, with a role of {', '.join(ROLES)}")
        if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
            raise ValueError(f"[{index}] has no content; give a text, or the parts of one")
    return [dict(message) for message in value]
