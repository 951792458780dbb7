"""Whose fault it is when a target gives no answer. That, and nothing else, decides what happens next.

`kind` is the class of the error in a few words, by which errors are counted: `timeout`, `http 500`, `raised ValueError`.
"""

from __future__ import annotations

TIMEOUT = "timeout"
CONNECTION = "connection"
BROKEN_ANSWER = "broken answer"
UNUSABLE = "unusable output"


class CandidateFault(Exception):
    """The target raised, refused, took too long, or answered something unusable: a failed outcome, the worst score."""

    def __init__(
        self,
        message: str,
        *,
        tokens: int = 0,
        cost: float = 0.0,
        latency_ms: float | None = None,
        kind: str = UNUSABLE,
    ) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.cost = cost
        self.latency_ms = latency_ms
        self.kind = kind


class TookTooLong(CandidateFault):
    """No answer within the time for a sample."""

    def __init__(self, message: str, *, tokens: int = 0, cost: float = 0.0, latency_ms: float | None = None) -> None:
        super().__init__(message, tokens=tokens, cost=cost, latency_ms=latency_ms, kind=TIMEOUT)


class Unreachable(Exception):
    """Infrastructure: network, 5xx, a broken answer. Tried again; if it stays, the answer is missing, never a score."""

    def __init__(self, message: str, *, kind: str = CONNECTION) -> None:
        super().__init__(message)
        self.kind = kind


class Throttled(Unreachable):
    """The endpoint has too much to do. Never an outcome, and everybody who calls it goes slower."""

    def __init__(self, message: str, retry_after: float | None, *, kind: str = "http 429") -> None:
        super().__init__(message, kind=kind)
        self.retry_after = retry_after


class Refused(Exception):
    """The endpoint refuses for good: wrong key, unknown model, nothing there. Trying again cannot help."""

    def __init__(self, message: str, *, kind: str = "refused") -> None:
        super().__init__(message)
        self.kind = kind
