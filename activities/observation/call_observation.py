"""One call as others see it: how long it took, what it took, how it ended, and a span of it where its run is traced."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

from activities.observation.worker_meters import UNSEEN, WorkerMeters
from activities.targets.faults import CandidateFault, Fault, Refused, Throttled, Unreachable
from workflows.metrics import OTHER


class CallFacts(NamedTuple):
    """What is known of a call before it is made."""

    call: str
    """Where an answer is asked for: one of `workflows.metrics.CALLS`."""
    run_id: str = ""
    model: str = ""
    address: str = ""
    plugin: str = ""
    request: Mapping[str, Any] | None = None
    """What a model is sent."""
    provider: str = "openai"
    """Whose protocol it is asked in."""


class CallSpan(Protocol):
    """The span of one call."""

    def headers(self) -> dict[str, str]:
        """What tells the other side of the trace."""
        ...

    def end(self, seen: SeenCall, outcome: str, error: BaseException | None) -> None:
        """The call is over."""
        ...


class SpanMaker(Protocol):
    """What begins spans. It stands here, so that OpenTelemetry is loaded only where somebody asked for traces."""

    def begin(self, facts: CallFacts) -> CallSpan | None:
        """Begin a span, or none where the run is not traced, or this call of it."""
        ...


class CallObservation:
    """What a worker observes of its calls."""

    def __init__(self, meters: WorkerMeters = UNSEEN, spans: SpanMaker | None = None) -> None:
        self.meters = meters
        self._spans = spans

    def of(self, facts: CallFacts) -> SeenCall:
        """Observe a call for as long as the block lasts."""
        return SeenCall(self.meters, facts, None if self._spans is None else self._spans.begin(facts))


class SeenCall:
    """A call while it is made."""

    __slots__ = ("_began", "_facts", "_meters", "_span", "answer", "cost", "finish_reason", "split", "tokens")

    def __init__(self, meters: WorkerMeters, facts: CallFacts, span: CallSpan | None) -> None:
        self._meters = meters
        self._facts = facts
        self._span = span
        self._began = 0.0
        self.tokens = 0
        self.cost = 0.0
        self.split: tuple[int, int] | None = None
        self.finish_reason: str | None = None
        self.answer: Any = None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        outcome = "answered" if error is None else outcome_of(error)
        if isinstance(error, Fault):
            self.tokens, self.cost = error.tokens, error.cost
        call, meters = self._facts.call, self._meters
        meters.call_seconds.record(time.perf_counter() - self._began, call, outcome)
        if self.tokens or self.cost:
            model = meters.model_label(self._facts.model) if self._facts.model else OTHER
            meters.took(call, self.tokens, self.cost, model, self.split)
        if self._span is not None:
            self._span.end(self, outcome, error)

    @property
    def headers(self) -> dict[str, str]:
        """What tells the other side that it is part of a trace."""
        return {} if self._span is None else self._span.headers()

    def took(self, tokens: int, cost: float) -> None:
        """What the call really took."""
        self.tokens, self.cost = tokens, cost


def outcome_of(error: BaseException) -> str:
    """How a call ended, in one of the words of `workflows.metrics.OUTCOMES`."""
    match error:
        case Throttled():
            return "throttled"
        case Unreachable():
            return "unreachable"
        case Refused():
            return "refused"
        case CandidateFault() | Exception():
            return "failed"
    return "given_up"


UNOBSERVED: Final = CallObservation()
"""Where nobody asked for metrics or traces."""
