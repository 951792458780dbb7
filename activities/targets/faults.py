"""Whose fault it is when a target gives no answer. That, and nothing else, decides what happens next."""

from __future__ import annotations


class CandidateFault(Exception):
    """The target raised, refused, took too long, or answered something unusable: a failed outcome, the worst score."""

    def __init__(self, message: str, *, tokens: int = 0, cost: float = 0.0, latency_ms: float | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.cost = cost
        self.latency_ms = latency_ms


class Unreachable(Exception):
    """Infrastructure: network, 5xx, a broken answer. Tried again; if it stays, the answer is missing, never a score."""


class Throttled(Unreachable):
    """The endpoint has too much to do. Never an outcome, and everybody who calls it goes slower."""

    def __init__(self, message: str, retry_after: float | None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(Exception):
    """The endpoint refuses for good: wrong key, unknown model, nothing there. Trying again cannot help."""
