"""A collector as OpenTelemetry's are: an HTTP server that takes traces and metrics in protobuf, and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True)
class TakenSpan:
    """One span as it came."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    attributes: dict[str, Any]
    error: bool
    said: str
    """What its status says."""
    events: tuple[tuple[str, dict[str, Any]], ...]


@dataclass
class Collector:
    """What was sent so far."""

    url: str = ""
    spans: list[TakenSpan] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    """The newest of each, by its name."""
    services: set[str] = field(default_factory=set)
    """Who sent metrics."""
    keys: set[str | None] = field(default_factory=set)
    bodies: list[bytes] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, holds: Callable[[], object], within: float = 60.0) -> None:
        """Wait until something that was sent makes this true."""
        async with asyncio.timeout(within):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def named(self, name: str) -> list[TakenSpan]:
        return [span for span in self.spans if span.name == name]

    def above(self, span: TakenSpan) -> list[str]:
        """The names of all spans that a span is part of, from the outermost on, its own name last."""
        by_id = {one.span_id: one for one in self.spans}
        names = [span.name]
        while (parent := by_id.get(span.parent_id)) is not None:
            names.insert(0, parent.name)
            span = parent
        return names

    async def take_traces(self, request: web.Request) -> web.Response:
        body = await self._read(request)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _values(resource.resource.attributes).get("service.name", "")
            for scope in resource.scope_spans:
                self.spans += [_taken(span, service) for span in scope.spans]
        self.changed.set()
        return web.Response(content_type="application/x-protobuf")

    async def take_metrics(self, request: web.Request) -> web.Response:
        for resource in ExportMetricsServiceRequest.FromString(await self._read(request)).resource_metrics:
            self.services.add(_values(resource.resource.attributes).get("service.name", ""))
            self.metrics |= {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
        self.changed.set()
        return web.Response(content_type="application/x-protobuf")

    async def _read(self, request: web.Request) -> bytes:
        self.keys.add(request.headers.get("x-collector-key"))
        body = await request.read()
        self.bodies.append(body)
        return body


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Take what is sent until the block is left."""
    collector = Collector()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", collector.take_traces)
    app.router.add_post("/v1/metrics", collector.take_metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


def _taken(span: Any, service: str) -> TakenSpan:
    return TakenSpan(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        service,
        _values(span.attributes),
        span.status.code == 2,
        span.status.message,
        tuple((event.name, _values(event.attributes)) for event in span.events),
    )


def _values(attributes: Iterable[KeyValue] | Sequence[KeyValue]) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)
