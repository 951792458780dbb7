"""Spans of calls, in the words of OpenTelemetry's conventions for generative AI.

This module loads OpenTelemetry; only a worker that is traced loads it. A span says what was asked for and what it took. What
was written and answered it says only where the operator wants that: whoever reads traces would read every prompt.
"""

from __future__ import annotations

import random
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry.propagate import inject
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_current_span, get_tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from activities.observation.call_observation import CallFacts, SeenCall
from activities.observation_settings import ObservationSettings
from activities.targets.faults import Fault
from ratchet._formats.canonical import NotCanonical, canonical_json
from workflows.model.failures import shorten

LONGEST_NAME: Final = 200
LONGEST_CONTENT: Final = 64 * 1024

_PARAMETERS: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "seed": "gen_ai.request.seed",
}
"""Parameters of a request that are numbers, and what the conventions call them."""

_PROVIDERS: Final = {"google": "gcp.gemini", "bedrock": "aws.bedrock"}
"""Those that the conventions call otherwise."""


def spans_of(observed: ObservationSettings) -> GenaiSpans:
    """Make what begins spans, by this process's tracer provider."""
    return GenaiSpans(get_tracer("ratchet"), share=observed.trace_calls, with_content=observed.trace_content)


class GenaiSpans:
    """Begins spans of calls, for runs that are traced."""

    def __init__(self, tracer: Tracer, *, share: float = 1.0, with_content: bool = False) -> None:
        self._tracer = tracer
        self._share = share
        self._with_content = with_content

    def begin(self, facts: CallFacts) -> GenaiSpan | None:
        """Begin a span below the current one, unless that is not sampled."""
        if self._share < 1.0 and random.random() >= self._share:
            return None
        if not get_current_span().get_span_context().trace_flags.sampled:
            return None
        operation = facts.call if facts.model else "call"
        subject = shorten(facts.model or facts.plugin or _place_of(facts.address), LONGEST_NAME)
        kind = SpanKind.INTERNAL if facts.call == "python" else SpanKind.CLIENT
        span = self._tracer.start_span(f"{operation} {subject}", kind=kind, attributes=_attributes(facts))
        if self._with_content and facts.request:
            span.set_attribute("gen_ai.input.messages", _written(facts.request.get("messages")))
        return GenaiSpan(span, with_content=self._with_content)


class GenaiSpan:
    """The span of one call."""

    def __init__(self, span: Span, *, with_content: bool) -> None:
        self._span = span
        self._with_content = with_content

    def headers(self) -> dict[str, str]:
        """The trace context, in the header that W3C names."""
        carrier: dict[str, str] = {}
        inject(carrier, set_span_in_context(self._span))
        return {name: value for name, value in carrier.items() if name in ("traceparent", "tracestate")}

    def end(self, seen: SeenCall, outcome: str, error: BaseException | None) -> None:
        """Say what the call took, and how it ended."""
        span = self._span
        span.set_attribute("ratchet.outcome", outcome)
        if seen.split is not None:
            span.set_attribute("gen_ai.usage.input_tokens", seen.split[0])
            span.set_attribute("gen_ai.usage.output_tokens", seen.split[1])
        if seen.tokens:
            span.set_attribute("ratchet.tokens", seen.tokens)
        if seen.cost:
            span.set_attribute("ratchet.cost", seen.cost)
        if seen.finish_reason is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [shorten(seen.finish_reason, LONGEST_NAME)])
        if self._with_content and seen.answer is not None:
            span.set_attribute("gen_ai.output.messages", _written(seen.answer))
        if error is not None:
            span.set_attribute("error.type", shorten(error.kind if isinstance(error, Fault) else type(error).__name__, 80))
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _attributes(facts: CallFacts) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"ratchet.run_id": facts.run_id, "ratchet.call": facts.call}
    if facts.model:
        found["gen_ai.operation.name"] = facts.call
        found["gen_ai.provider.name"] = _PROVIDERS.get(facts.provider, facts.provider)
        found["gen_ai.request.model"] = shorten(facts.model, LONGEST_NAME)
    if facts.plugin:
        found["ratchet.plugin"] = facts.plugin
    if facts.address:
        parts = urlsplit(facts.address)
        found["server.address"] = parts.hostname or ""
        if parts.port is not None:
            found["server.port"] = parts.port
    for name, conventional in _PARAMETERS.items():
        value = (facts.request or {}).get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[conventional] = value
    return found


def _place_of(address: str) -> str:
    """Host and port: a path may hold what was filled into it."""
    return urlsplit(address).netloc.rpartition("@")[2]


def _written(value: Any) -> str:
    try:
        return shorten(value if isinstance(value, str) else canonical_json(value), LONGEST_CONTENT)
    except (NotCanonical, RecursionError):
        return ""
