"""What the simulated server remembers of the calls it got, so that a test can see who paid twice."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from clients.demo.protocol import Answer, ChatRequest


@dataclass
class LoggedCall:
    """One call while it is in flight."""

    key: str | None = None
    outcome: str = "aborted"
    """The HTTP status; `aborted` if the connection ended without a full answer."""
    answered: bool = False
    """The caller got an answer that it can use."""
    chat: ChatRequest | None = None
    """What was asked, where it is a chat that can be read."""
    answer: Answer | None = None
    """What was answered, or would have been but for a fault."""


@dataclass
class CallLog:
    """Counts of all calls to `chat/completions` and `embeddings` since the start or the last reset."""

    calls: int = 0
    in_flight: int = 0
    max_concurrent: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @contextmanager
    def call(self) -> Iterator[LoggedCall]:
        """Count a call for as long as it lasts. What it comes to after a reset is not counted."""
        call, by_status, answered = LoggedCall(), self.by_status, self.answered
        self.calls += 1
        self.in_flight += 1
        self.max_concurrent = max(self.max_concurrent, self.in_flight)
        try:
            yield call
        finally:
            self.in_flight -= 1
            by_status[call.outcome] += 1
            if call.answered and call.key is not None:
                answered[call.key] += 1

    def received(self, call: LoggedCall, key: str) -> None:
        """Note what the call asks for."""
        call.key = key
        self.requests[key] += 1

    def spend(self, usage: dict[str, Any]) -> None:
        """Note what an answer cost."""
        self.prompt_tokens += usage["prompt_tokens"]
        self.completion_tokens += usage.get("completion_tokens", 0)

    def reset(self) -> None:
        """Start from zero; calls in flight stay in flight."""
        in_flight = self.in_flight
        self.__init__()  # type: ignore[misc]
        self.in_flight = self.max_concurrent = in_flight

    def as_json(self) -> dict[str, Any]:
        """The counts. `repeated` is how many good answers were given to a request that had already got one."""
        return {
            "calls": self.calls,
            "by_status": dict(self.by_status),
            "in_flight": self.in_flight,
            "max_concurrent": self.max_concurrent,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "requests": dict(self.requests),
            "answered": dict(self.answered),
            "repeated": self.answered.total() - len(self.answered),
        }
