"""Where metrics come out: the ports of one machine, and a collector."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs
from temporalio.runtime import LoggingConfig

from activities.observation_settings import ListenAddress, ObservationSettings
from activities.settings import secrets_in_environment
from clients.span_export import exporter_of
from clients.telemetry import PORTS_TRIED, runtime_of
from clients.traces import Tracing
from ratchet._environment import BadSetting, settings_from
from tests.support.documents import ROOT
from tests.support.otlp_collector import collecting
from tests.support.scrapes import free_ports, scraped
from workflows.metrics import CALL_COST, RUNS_BEGUN, Count, Spread

QUIET = LoggingConfig("ERROR")


def observed(environment: Mapping[str, str]) -> ObservationSettings:
    return settings_from(ObservationSettings, environment)


def test_a_second_process_takes_the_next_port() -> None:
    wanted = ListenAddress("127.0.0.1", free_ports(PORTS_TRIED))
    told = ObservationSettings(metrics=wanted)
    (first, at), (_second, after) = runtime_of(told, QUIET), runtime_of(told, QUIET)
    assert at == wanted
    assert after is not None and wanted.port < after.port < wanted.port + PORTS_TRIED
    Count(first.metric_meter, RUNS_BEGUN).add(2, "refine")
    assert scraped(f"http://{wanted}/metrics").sum("ratchet_runs_begun_total", optimizer="refine") == 2
    assert "ratchet_runs_begun_total" not in scraped(f"http://{after}/metrics").names


def test_where_every_port_is_taken_the_setting_is_named() -> None:
    first = free_ports(PORTS_TRIED)
    with contextlib.ExitStack() as taken:
        for port in range(first, first + PORTS_TRIED):
            taken.enter_context(socket.create_server(("127.0.0.1", port)))
        with pytest.raises(BadSetting, match=f"RATCHET_METRICS is '127.0.0.1:{first}', and other processes have that port"):
            runtime_of(ObservationSettings(metrics=ListenAddress("127.0.0.1", first)), QUIET)


def test_an_address_that_this_machine_does_not_have_is_named() -> None:
    with pytest.raises(BadSetting, match=r"RATCHET_METRICS is '203\.0\.113\.7:9464'.*give another address"):
        runtime_of(observed({"RATCHET_METRICS": "203.0.113.7:9464"}), QUIET)


def test_a_histogram_has_the_buckets_that_its_metric_says() -> None:
    address = ListenAddress("127.0.0.1", free_ports(3))
    runtime, _ = runtime_of(ObservationSettings(metrics=address), QUIET)
    Spread(runtime.metric_meter, CALL_COST).record(0.5, "chat", "other")
    limits = scraped(f"http://{address}/metrics").values("ratchet_call_cost_bucket", "le")
    assert {float(limit) for limit in limits} == {*CALL_COST.buckets, float("inf")}


async def test_a_collector_is_sent_metrics_with_its_key() -> None:
    async with collecting() as collector:
        told = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "X-Collector-Key=a%20key",
            "OTEL_METRIC_EXPORT_INTERVAL": "50",
            "OTEL_SERVICE_NAME": "nightly",
        }
        runtime, address = await asyncio.to_thread(runtime_of, observed(told), QUIET)
        Count(runtime.metric_meter, RUNS_BEGUN).add(3, "evolve")
        await collector.until(lambda: "ratchet_runs_begun" in collector.metrics)
        [point] = collector.metrics["ratchet_runs_begun"].sum.data_points
        assert (address, point.as_int, collector.keys, collector.services) == (None, 3, {"a key"}, {"nightly"})


@pytest.mark.parametrize(
    ("environment", "metrics_to", "traces_to"),
    [
        ({}, None, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/metrics", "http://c:4318/"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http://c:4317",
            "http://c:4317",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "RATCHET_METRICS": "127.0.0.1:9464"}, None, "http://c:4318"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, None, "http://c"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, "http://c/v1/metrics", None),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m/in"}, "http://m/in", None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t/in"}, None, "http://t/in"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, None, None),
    ],
)
def test_the_environment_says_what_is_sent_where(
    environment: dict[str, str], metrics_to: str | None, traces_to: str | None
) -> None:
    found = observed(environment)
    assert (found.metrics_to, found.traces_to) == (metrics_to, traces_to)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RATCHET_METRICS", "9464"),
        ("RATCHET_METRICS", "127.0.0.1:0"),
        ("RATCHET_METRICS", ":9464"),
        ("RATCHET_METRICS", "localhost:9464"),
        ("RATCHET_TRACE_CALLS", "1.5"),
        ("RATCHET_TRACE_CALLS", "some"),
        ("RATCHET_TRACE_CONTENT", "perhaps"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a-key-without-a-name"),
    ],
)
def test_what_cannot_be_meant_is_named_and_a_key_is_not_repeated(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=name) as told:
        observed({name: value})
    assert "HEADERS" not in name or value not in str(told.value)


def test_an_address_may_be_of_the_newer_kind() -> None:
    assert observed({"RATCHET_METRICS": "[::1]:9464"}).metrics == ListenAddress("::1", 9464)
    assert str(ListenAddress("::1", 9464)) == "[::1]:9464"


def test_what_a_collector_is_sent_as_its_key_is_secret() -> None:
    told = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abcd1234,team=blue"}
    assert {"Bearer abcd1234", "Bearer%20abcd1234"} <= set(secrets_in_environment(told))
    assert "abcd1234" not in repr(observed(told))


@pytest.mark.parametrize(("protocol", "package"), [("http/protobuf", "http"), ("grpc", "grpc")])
def test_a_collector_is_spoken_to_in_either_way(protocol: str, package: str) -> None:
    exporter = exporter_of(observed({"OTEL_EXPORTER_OTLP_PROTOCOL": protocol}))
    assert f"proto.{package}." in type(exporter).__module__
    exporter.shutdown()


def test_without_the_package_there_are_no_traces_and_the_log_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    tracing = Tracing()
    with capture_logs() as logs:
        tracing.begin(observed({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}))
    assert [line["install"] for line in logs] == ["ratchet-optimizer[opentelemetry]"]
    assert (tracing.is_on, tracing.plugins(), tracing.ids()) == (False, [], {})


def test_who_is_not_traced_does_not_load_opentelemetry() -> None:
    loads = (
        "import sys, worker, clients.cli, clients.runs.start; sys.exit(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", loads], cwd=ROOT, check=False).returncode == 0
