"""A tracer whose spans go through our exporter, and are kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from activities.observation.call_observation import CallObservation
from activities.observation.genai_spans import GenaiSpans
from clients.span_export import TellingExporter


class Traced:
    """A tracer, and what came of it by way of our exporter."""

    def __init__(self, sampler: Sampler = ALWAYS_ON, *, share: float = 1.0, with_content: bool = False) -> None:
        self._taken = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(TellingExporter(self._taken, with_content=with_content)))
        self.tracer = provider.get_tracer("tests")
        self.observation = CallObservation(spans=GenaiSpans(self.tracer, share=share, with_content=with_content))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._taken.get_finished_spans())

    @contextmanager
    def activity(self) -> Iterator[None]:
        with self.tracer.start_as_current_span("RunActivity:evaluate_shard"):
            yield
