"""Rows of samples: one outcome with its sample."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from ratchet._frozen import Payload


class ItemRow(Payload):
    """One outcome with its sample."""

    position: int
    replicate: int
    item_id: str
    item_hash: str
    input: Any
    expected: Any
    weight: float
    tags: tuple[str, ...]
    status: str
    passed: bool
    scores: dict[str, float]
    score_details: dict[str, Any] = Field(default_factory=dict)
    output: Any
    error: str | None
    feedback: str
    tokens: int
    cached_tokens: int = 0
    """Of the tokens, those that came from a provider's cache."""
    cost: float
    latency_ms: float | None
    ttft_ms: float | None
    trace: Any
    reused_from: str | None
    created_at: datetime
    printed: str | None
    """The end of what target and scorers printed, where they are code of the user's."""
    echoed: bool
    """Whether the target said that it used the candidate's configuration."""
    texts_removed: bool = False
    """Its texts are gone, by a policy."""


class ItemPage(Payload):
    total: int
    items: tuple[ItemRow, ...]
