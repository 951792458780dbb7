"""Whose fault it is when a target gives no answer, and whether it was billed. That decides what happens next.

`kind` is the class of the error in a few words, by which errors are counted and nothing is decided: `timeout`, `http 500`,
`raised ValueError`. `billed` says whether the call cost something: `no` where the endpoint said that it refuses, or was never
reached; `yes` where an answer came; `unknown` where nobody heard how the call ended.
"""

from __future__ import annotations

from typing import Any, Literal

TIMEOUT = "timeout"
CONNECTION = "connection"
BROKEN_ANSWER = "broken answer"
UNUSABLE = "unusable output"

Billed = Literal["no", "unknown", "yes"]


class Fault(Exception):
    """A call that gave no answer that can be used."""

    def __init__(self, message: str, *, kind: str, billed: Billed, tokens: int = 0, cost: float = 0.0) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed
        self.traceback = ""
        """Where the user's code raised, a line for each frame."""
        self.trace: Any = None
        """What is kept to explain it."""
        self.tokens = tokens
        """What the call took, as far as it was said."""
        self.cost = cost


class CandidateFault(Fault):
    """The target raised, refused, took too long, or answered something unusable: a failed outcome, the worst score."""

    def __init__(
        self,
        message: str,
        *,
        tokens: int = 0,
        cost: float = 0.0,
        latency_ms: float | None = None,
        kind: str = UNUSABLE,
        billed: Billed = "unknown",
    ) -> None:
        super().__init__(message, kind=kind, billed=billed, tokens=tokens, cost=cost)
        self.latency_ms = latency_ms


class TookTooLong(CandidateFault):
    """No answer within the time for a sample."""

    def __init__(self, message: str, *, tokens: int = 0, cost: float = 0.0, latency_ms: float | None = None) -> None:
        super().__init__(message, tokens=tokens, cost=cost, latency_ms=latency_ms, kind=TIMEOUT)


class NotSent(CandidateFault):
    """The request could not even be made, such as when a placeholder names nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="placeholder", billed="no")


class Unreachable(Fault):
    """Infrastructure: network, 5xx, an answer that broke off. Tried again within limits; what stays is missing, never a
    score."""

    def __init__(self, message: str, *, kind: str = CONNECTION, billed: Billed = "unknown") -> None:
        super().__init__(message, kind=kind, billed=billed)


class Throttled(Unreachable):
    """The endpoint has too much to do. Never an outcome, and everybody who calls it goes slower."""

    def __init__(self, message: str, retry_after: float | None, *, kind: str = "http 429") -> None:
        super().__init__(message, kind=kind, billed="no")
        self.retry_after = retry_after


class Unjudged(Unreachable):
    """A model that scores gave no verdict on one answer. The answer is kept; that sample has no score."""

    def __init__(self, message: str, *, kind: str = "no verdict") -> None:
        super().__init__(message, kind=kind, billed="yes")


class Refused(Fault):
    """The endpoint refuses for good: wrong key, unknown model, nothing there. Trying again cannot help."""

    def __init__(self, message: str, *, kind: str = "refused") -> None:
        super().__init__(message, kind=kind, billed="no")
