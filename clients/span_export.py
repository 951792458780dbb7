"""What is made of spans on their way to the collector: texts that people wrote, or models answered, are taken out.

This module loads OpenTelemetry; only a process that is traced loads it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry.propagate import set_global_textmap
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status, set_tracer_provider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider

if TYPE_CHECKING:
    from activities.observation_settings import ObservationSettings

SECONDS_AT_THE_END: Final = 3.0
"""What the spans of the last moments get to arrive when a process ends."""

QUESTIONS: Final = ("QueryWorkflow:", "HandleQuery:")
"""Spans of queries. Whoever follows a run asks every second: what that tells nobody wants to know."""

KEPT_OF_ERRORS: Final = ("exception.type",)
LEFT_OUT: Final = ("url.query", "url.full")
"""What an address asks for may be a key."""


class TellingExporter(SpanExporter):
    """Sends what is worth it, without texts unless they are wanted.

    What an error says may quote a prompt, an answer, or what a plug-in printed; Temporal's plug-in notes it with the span.
    """

    def __init__(self, exporter: SpanExporter, *, with_content: bool) -> None:
        self._exporter = exporter
        self._with_content = with_content

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        told = [span for span in spans if not span.name.startswith(QUESTIONS)]
        if not told:
            return SpanExportResult.SUCCESS
        return self._exporter.export(told if self._with_content else [without_texts(span) for span in told])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def without_texts(span: ReadableSpan) -> ReadableSpan:
    """The same span; of errors only the class is left."""
    attributes = span.attributes or {}
    if not span.events and span.status.description is None and attributes.keys().isdisjoint(LEFT_OUT):
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={name: value for name, value in attributes.items() if name not in LEFT_OUT},
        events=[_without_texts(event) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _without_texts(event: Event) -> Event:
    kept = {name: value for name, value in (event.attributes or {}).items() if name in KEPT_OF_ERRORS}
    return Event(event.name, kept, event.timestamp)


def provide_tracer(observed: ObservationSettings) -> None:
    """Make this process's tracer provider. Which runs are traced, its sampler reads from the environment."""
    # Not what else a caller says of itself (baggage): it would go into the history of the run, and on to others.
    set_global_textmap(TraceContextTextMapPropagator())
    provider = create_tracer_provider(resource=Resource.create({SERVICE_NAME: observed.service}), shutdown_on_exit=False)
    exporter = TellingExporter(exporter_of(observed), with_content=observed.trace_content)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)
    atexit.register(_send_the_rest, provider)


def _send_the_rest(provider: ReplaySafeTracerProvider) -> None:
    """When the process ends. A collector that is away would be waited for much longer, by every command."""
    sending = threading.Thread(target=provider.shutdown, daemon=True)
    sending.start()
    sending.join(SECONDS_AT_THE_END)


def exporter_of(observed: ObservationSettings) -> SpanExporter:
    """What speaks to the collector. Address, headers and certificates it reads from the environment itself."""
    if observed.otlp_protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as ByGrpc

        return ByGrpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as ByHttp

    return ByHttp()
