"""What a program reads of a run, as plain dictionaries whose keys type checkers know."""

from __future__ import annotations

from typing import Any, TypedDict


class TrialDict(TypedDict):
    """A configuration that was measured, with its score and what it took."""

    candidate: str
    round: int
    purpose: str
    """`baseline` and `candidate` are the search; `confirmation`, `noise` and others stand beside it."""
    status: str
    score: float | None
    low: float | None
    high: float | None
    """The ends of its 95 % interval over samples."""
    samples: int
    passed: int
    tokens: int
    cost: float
    latency_ms: float | None
    error: str | None
    configuration: dict[str, Any]


class AnswerDict(TypedDict):
    """What a candidate answered on one sample, once."""

    position: int
    replicate: int
    item_id: str
    item_hash: str
    input: Any
    expected: Any
    weight: float
    tags: list[str]
    status: str
    passed: bool
    scores: dict[str, float]
    score_details: dict[str, Any]
    output: Any
    error: str | None
    feedback: str
    tokens: int
    cached_tokens: int
    cost: float
    latency_ms: float | None
    ttft_ms: float | None
    trace: Any
    reused_from: str | None
    created_at: str
    printed: str | None
    echoed: bool
    texts_removed: bool
    """A policy took its texts away; scores are kept."""


class EventDict(TypedDict):
    """Something that happened in a run."""

    id: int
    type: str
    payload: dict[str, Any]
    created_at: str
