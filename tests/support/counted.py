"""What is counted, with the real meter of Temporal's SDK, kept in memory instead of being shown."""

from __future__ import annotations

import pytest
from temporalio.common import MetricMeter
from temporalio.runtime import BufferedMetricUpdate, MetricBuffer, Runtime, TelemetryConfig

from workflows.metrics import METRICS

LABELS = {metric.name: tuple(metric.labels) for metric in METRICS}


class Counted:
    """What was recorded since it was last asked."""

    def __init__(self) -> None:
        self._buffer = MetricBuffer(10_000)
        self._runtime = Runtime(telemetry=TelemetryConfig(metrics=self._buffer, attach_service_name=False))

    @property
    def meter(self) -> MetricMeter:
        return self._runtime.metric_meter

    def updates(self) -> list[BufferedMetricUpdate]:
        return list(self._buffer.retrieve_updates())

    def sums(self) -> dict[tuple[str, ...], float]:
        """What was added, by metric and its labels in their order."""
        found: dict[tuple[str, ...], float] = {}
        for update in self.updates():
            key = (update.metric.name, *(str(update.attributes[label]) for label in LABELS[update.metric.name]))
            found[key] = found.get(key, 0) + update.value
        return found


@pytest.fixture(scope="session")
def counted_by_all() -> Counted:
    return Counted()


@pytest.fixture
def counted(counted_by_all: Counted) -> Counted:
    """What this test counts."""
    counted_by_all.updates()
    return counted_by_all
