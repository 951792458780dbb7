"""The most that one call of a model can take, known before it is made: what a budget has to have left for it.

A token is at least one byte of UTF-8 in every tokenizer that falls back to bytes, which all of the known ones do, so that the
bytes of a request bound its tokens; chat formats add a few around each message. An answer is bounded by `max_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from workflows.model.run.amounts import Amount
from workflows.model.spec.prices import Price

LONGEST_ANSWER = 16_384
"""Tokens that an answer is assumed to have at most where the request does not limit it. State max_tokens: it is cheaper."""

AROUND_A_REQUEST = 32
AROUND_A_MESSAGE = 16
"""Tokens that chat formats add."""

TOKENS_OF_AN_IMAGE = 40_000
"""More than the known models count for one. A file that is no image is bounded by its bytes, as text is."""

_NOT_READ = ("model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n")


def chat_bound(body: Mapping[str, Any], price: Price | None) -> Amount:
    """The most that one chat completion can take: everything that is sent, and the longest answer."""
    messages, images = _without_images(body.get("messages") or [])
    sent = {name: value for name, value in body.items() if name not in _NOT_READ} | {"messages": messages}
    read = _bytes(sent) + images * TOKENS_OF_AN_IMAGE + AROUND_A_REQUEST + AROUND_A_MESSAGE * len(messages)
    return bound_of(read, _longest_answer(body), price)


def _without_images(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], int]:
    """Messages without their images, and how many these are."""
    left: list[Mapping[str, Any]] = []
    images = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            others = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "image_url")]
            images += len(content) - len(others)
            message = {**message, "content": others}
        left.append(message)
    return left, images


def embedding_bound(texts: Sequence[str], price: Price | None) -> Amount:
    """The most that embedding some texts can take."""
    return bound_of(sum(len(text.encode("utf-8", "replace")) + AROUND_A_MESSAGE for text in texts), 0, price)


def bound_of(read: int, written: int, price: Price | None) -> Amount:
    """So many tokens read and written, and what they cost."""
    if price is None:
        return Amount(tokens=read + written)
    rates = price.for_request(read)
    return Amount(tokens=read + written, cost=(read * rates.dearest_input + written * rates.output) / 1_000_000)


def _longest_answer(body: Mapping[str, Any]) -> int:
    limits = [body.get(name) for name in ("max_completion_tokens", "max_tokens")]
    stated = [limit for limit in limits if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0]
    choices = body.get("n")
    return (max(stated) if stated else LONGEST_ANSWER) * (choices if isinstance(choices, int) and choices > 1 else 1)


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
