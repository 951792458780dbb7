"""What a process is told of how it is observed: metrics and traces, by Ratchet's variables and OpenTelemetry's own."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self, get_args
from urllib.parse import unquote

from ratchet._environment import BadSetting, Variable, read_count, setting

METRICS: Final = "RATCHET_METRICS"
OTLP_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
OTLP_HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"

Protocol = Literal["http/protobuf", "grpc"]


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a process listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _read_address(text: str, name: str) -> ListenAddress:
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        address = None
    if address is None or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadSetting(f"{name} is {text!r}; give an address and a port, such as 127.0.0.1:9464 or 0.0.0.0:9464")
    return ListenAddress(str(address), int(port))


def _read_protocol(text: str, name: str) -> str:
    if text not in get_args(Protocol):
        raise BadSetting(f"{name} is {text!r}; use {' or '.join(get_args(Protocol))}")
    return text


def _read_headers(text: str, name: str) -> dict[str, str]:
    """As OpenTelemetry has them: names and values in percent encoding. A message must not repeat them: they hold keys."""
    given = [entry.partition("=") for entry in text.split(",") if entry.strip()]
    if any(not key.strip() or not equals for key, equals, _ in given):
        raise BadSetting(f"{name} is not a list of `name=value`, separated by commas")
    return {unquote(key.strip()).lower(): unquote(value.strip()) for key, _, value in given}


def _read_share(text: str, name: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise BadSetting(f"{name} is {text!r}; give a share from 0 to 1, such as 0.01")
    return share


def _read_switch(text: str, name: str) -> bool:
    if text.lower() not in ("0", "1", "true", "false"):
        raise BadSetting(f"{name} is {text!r}; use 1 or 0")
    return text.lower() in ("1", "true")


@dataclass(frozen=True)
class ObservationSettings:
    """What is shown of a process to those who watch it: metrics and traces. Nothing is, unless somebody asks for it."""

    metrics: ListenAddress | None = setting(
        Variable(
            METRICS,
            "observation",
            "none",
            "Address at which this process shows its metrics to Prometheus, such as `127.0.0.1:9464`. Where another process "
            "has the port, one of the nine after it is taken, and the log says which.",
        ),
        default=None,
        read=_read_address,
    )
    otlp_endpoint: str = setting(
        Variable(
            OTLP_ENDPOINT,
            "observation",
            "none",
            "Collector that traces are sent to, and metrics, unless `RATCHET_METRICS` shows them. Traces need "
            "`ratchet-optimizer[opentelemetry]`.",
        )
    )
    otlp_traces_endpoint: str = setting(
        Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "observation", "", "The same for traces alone, with the whole path.")
    )
    otlp_metrics_endpoint: str = setting(
        Variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "observation", "", "The same for metrics alone, with the whole path.")
    )
    otlp_protocol: Protocol = setting(
        Variable(OTLP_PROTOCOL, "observation", "`http/protobuf`", "How the collector is spoken to: `http/protobuf` or `grpc`."),
        default="http/protobuf",
        read=_read_protocol,
    )
    otlp_headers: Mapping[str, str] = field(
        default_factory=dict,
        repr=False,
        metadata={
            "variable": Variable(
                OTLP_HEADERS,
                "observation",
                "",
                "Headers that the collector is sent, such as its key: `name=value,name=value`.",
            ),
            "read": _read_headers,
        },
    )
    metrics_exporter: str = setting(
        Variable("OTEL_METRICS_EXPORTER", "observation", "`otlp`", "`none` sends the collector no metrics."), default="otlp"
    )
    traces_exporter: str = setting(
        Variable("OTEL_TRACES_EXPORTER", "observation", "`otlp`", "`none` sends the collector no traces."), default="otlp"
    )
    metric_interval_ms: int = setting(
        Variable("OTEL_METRIC_EXPORT_INTERVAL", "observation", "`60000`", "Milliseconds between two sendings of metrics."),
        default=60_000,
        read=read_count,
    )
    disabled: bool = setting(
        Variable("OTEL_SDK_DISABLED", "observation", "", "`true` sends a collector nothing at all."),
        default=False,
        read=_read_switch,
    )
    service: str = setting(
        Variable("OTEL_SERVICE_NAME", "observation", "`ratchet`", "What the process is called at the collector."),
        default="ratchet",
    )
    trace_calls: float = setting(
        Variable(
            "RATCHET_TRACE_CALLS",
            "observation",
            "`1`",
            "Share of the calls of a traced run that are traced, from 0 to 1: a run of 100,000 answers is told well by 0.01.",
        ),
        default=1.0,
        read=_read_share,
    )
    trace_content: bool = setting(
        Variable(
            "RATCHET_TRACE_CONTENT",
            "observation",
            "`0`",
            "`1` writes prompts, answers and messages of errors into traces, where whoever reads traces reads them.",
        ),
        default=False,
        read=_read_switch,
    )

    @property
    def without_metrics(self) -> Self:
        """The same for a process that is gone before anybody looks."""
        return replace(self, metrics=None, metrics_exporter="none")

    @property
    def traces_to(self) -> str | None:
        """The collector that traces are sent to."""
        if self.disabled or self.traces_exporter == "none":
            return None
        return self.otlp_traces_endpoint or self.otlp_endpoint or None

    @property
    def metrics_to(self) -> str | None:
        """The address that metrics are sent to, the path included."""
        if self.disabled or self.metrics_exporter == "none" or self.metrics is not None:
            return None
        if self.otlp_metrics_endpoint or not self.otlp_endpoint:
            return self.otlp_metrics_endpoint or None
        return self.otlp_endpoint if self.otlp_protocol == "grpc" else f"{self.otlp_endpoint.rstrip('/')}/v1/metrics"
