"""Traces of this process: from the request that starts a run to each call that is made for it, sent to a collector.

Temporal's own plug-in makes the spans of starts, workflows and activities, and hands the trace on through Temporal.
OpenTelemetry is an extra, and is loaded only where the environment names a collector. Everything else about it, such as which
runs are traced, is said by its own variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from temporalio.plugin import SimplePlugin

    from activities.observation_settings import ObservationSettings

log = structlog.get_logger("traces")

EXTRA = "ratchet-optimizer[opentelemetry]"


class Tracing:
    """Whether this process is traced. There is one of it, as OpenTelemetry has one provider for all of a process."""

    def __init__(self) -> None:
        self.is_on = False

    def begin(self, observed: ObservationSettings) -> None:
        """Send traces to the collector that the environment names, if it names one."""
        if observed.traces_to is None or self.is_on:
            return
        try:
            from clients.span_export import provide_tracer

            provide_tracer(observed)
        except ModuleNotFoundError as error:
            log.warning("there are no traces: a package is missing", package=error.name, install=EXTRA)
            return
        self.is_on = True
        log.info("traces are sent", collector=observed.traces_to, protocol=observed.otlp_protocol)

    def plugins(self) -> list[SimplePlugin]:
        """What a client, and the workers that it is given to, need to take part."""
        if not self.is_on:
            return []
        from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

        return [OpenTelemetryPlugin(add_temporal_spans=True)]

    def ids(self) -> dict[str, str]:
        """The trace and the span that the current code is part of, by which logs are found."""
        if not self.is_on:
            return {}
        from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

        context = get_current_span().get_span_context()
        if not context.is_valid:
            return {}
        return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}


TRACING = Tracing()
