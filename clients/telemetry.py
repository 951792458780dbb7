"""The one runtime of Temporal's SDK that a process has: where its core logs, and where metrics come out.

It is made once, before anything connects: what connected before would stay with another, of which nobody sees anything.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog
from temporalio.runtime import LoggingConfig, OpenTelemetryConfig, PrometheusConfig, Runtime, TelemetryConfig

from ratchet._environment import BadSetting
from workflows.metrics import METRICS

if TYPE_CHECKING:
    from activities.observation_settings import ListenAddress, ObservationSettings

log = structlog.get_logger("telemetry")

PORTS_TRIED: Final = 10
"""Processes of one machine that can be told the same port: a worker, those of plug-ins, the server of the page."""

_BUCKETS: Final = {metric.name: metric.buckets for metric in METRICS if metric.buckets}


def use_runtime(observed: ObservationSettings, logging: LoggingConfig | None = LoggingConfig.default) -> ListenAddress | None:
    """Make the runtime of this process. Returns the address at which it shows its metrics, if it does."""
    runtime, address = runtime_of(observed, logging)
    Runtime.set_default(runtime)
    if address is not None and address != observed.metrics:
        log.warning(told_elsewhere(observed, address), metrics=f"http://{address}/metrics")
    elif address is not None:
        log.info("metrics are shown", metrics=f"http://{address}/metrics")
    return address


def told_elsewhere(observed: ObservationSettings, address: ListenAddress) -> str:
    """That metrics are not where they were to be."""
    return f"another process has {observed.metrics}, where metrics were to be shown; they are at http://{address}/metrics"


def runtime_of(observed: ObservationSettings, logging: LoggingConfig | None) -> tuple[Runtime, ListenAddress | None]:
    """Make a runtime, and say at which address it shows its metrics. Raise BadSetting where it cannot."""
    if observed.metrics is not None:
        return _shown_metrics(observed.metrics, logging)
    sent, named = _sent_metrics(observed), {"service.name": observed.service}
    telemetry = TelemetryConfig(logging=logging, metrics=sent, global_tags=named, attach_service_name=False)
    return Runtime(telemetry=telemetry), None


def _shown_metrics(wanted: ListenAddress, logging: LoggingConfig | None) -> tuple[Runtime, ListenAddress]:
    for port in range(wanted.port, min(wanted.port + PORTS_TRIED, 65536)):
        address = replace(wanted, port=port)
        if _is_taken(address, wanted):
            continue
        shown = PrometheusConfig(
            bind_address=str(address),
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
            histogram_bucket_overrides=_BUCKETS,
        )
        try:
            return Runtime(telemetry=TelemetryConfig(logging=logging, metrics=shown, attach_service_name=False)), address
        except ValueError as error:  # somebody was faster
            log.info("metrics cannot be shown here", address=str(address), error=str(error))
    others = f"other processes have that port and the {PORTS_TRIED - 1} after it"
    raise BadSetting(f"RATCHET_METRICS is {str(wanted)!r}, and {others}; give another")


def _is_taken(address: ListenAddress, wanted: ListenAddress) -> bool:
    """Whether another process listens there. Raise BadSetting where nobody can."""
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            why = error.strerror or str(error)
            told = f"RATCHET_METRICS is {str(wanted)!r}, and metrics cannot be shown there: {why}; give another address"
            raise BadSetting(told) from None
    return False


def _sent_metrics(observed: ObservationSettings) -> OpenTelemetryConfig | None:
    if observed.metrics_to is None:
        return None
    return OpenTelemetryConfig(
        url=observed.metrics_to,
        headers=observed.otlp_headers,
        http=observed.otlp_protocol == "http/protobuf",
        metric_periodicity=timedelta(milliseconds=observed.metric_interval_ms),
        durations_as_seconds=True,
        histogram_bucket_overrides=_BUCKETS,
    )
