"""What it costs to be watched: the same runs by a worker that shows nothing, one with metrics, and one that is traced, too.

    python -m benchmarks.observation [--quick]

The workers take turns, so that whatever else the machine does falls on all of them alike. CPU is the worker's own; of a target
that does nothing, since there the engine's own work is all there is. Wall time is of calls that take their time, as models' do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from benchmarks.engine import one_trial, stored_dataset
from benchmarks.figures import Figure, main
from benchmarks.processes import BenchServers, bench_servers

METRICS = {"RATCHET_METRICS": "127.0.0.1:29464"}
CONCURRENT, LATENCY_MS = 64, 50
MOST = 1.02


class Deaf(BaseHTTPRequestHandler):
    """A collector that takes whatever comes."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def deaf_collector() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


async def measure(quick: bool) -> list[Figure]:
    outcomes, calls, repeats = (5_000, 1_000, 3) if quick else (50_000, 10_000, 5)
    with deaf_collector() as url:
        sent = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRICS_EXPORTER": "none"}
        ways: dict[str, dict[str, str]] = {
            "nothing": {},
            "metrics": METRICS,
            "metrics, and traces of one call in a hundred": METRICS | sent | {"RATCHET_TRACE_CALLS": "0.01"},
        }
        if not quick:
            ways["metrics, and traces of every call"] = METRICS | sent
        cpu: dict[str, list[float]] = {way: [] for way in ways}
        wall: dict[str, list[float]] = {way: [] for way in ways}
        async with bench_servers() as servers:
            for repeat in range(repeats):
                for number, (way, environment) in enumerate(ways.items()):
                    spent, took = await measured(servers, f"{repeat}-{number}", environment, outcomes, calls)
                    cpu[way].append(spent)
                    wall[way].append(took)
    figures = [Figure(f"CPU per outcome, {way}", min(cpu[way]) * 1000 / outcomes, unit="ms") for way in ways]
    for way in list(ways)[1:]:
        limit = MOST if "every" not in way else None
        figures.append(Figure(f"wall time over that of nothing, {way}", over(wall[way], wall["nothing"]), limit))
        figures.append(Figure(f"CPU over that of nothing, {way}", over(cpu[way], cpu["nothing"])))
    return figures


def over(these: list[float], those: list[float]) -> float:
    """The least of these over the least of those: whatever else the machine does only adds to them."""
    return min(these) / min(those)


async def measured(
    servers: BenchServers, name: str, environment: dict[str, str], outcomes: int, calls: int
) -> tuple[float, float]:
    """CPU seconds of a worker for so many outcomes of a target that does nothing, and the wall time of calls that take long."""
    async with servers.worker(**environment) as worker:
        await servers.run(f"warm-up-{name}", one_trial("instant", 200, 16))
        before = worker.cpu_seconds()
        dataset = stored_dataset(servers, 1000)
        await servers.run(f"cpu-{name}", one_trial("instant", 0, 64, dataset=dataset, replicates=outcomes // 1000))
        spent = worker.cpu_seconds() - before
        slow = one_trial(f"takes_{LATENCY_MS}_ms", 0, CONCURRENT, dataset=dataset, replicates=calls // 1000)
        await servers.run(f"wall-{name}", slow)
        took = await servers.fetchval(
            "SELECT extract(epoch FROM max(created_at) - min(created_at - latency_ms * interval '1 ms'))::float8"
            " FROM outcomes WHERE run_id = $1",
            f"wall-{name}",
        )
    return spent, float(took)


if __name__ == "__main__":
    main("What it costs to be watched, one worker process, embedded stack", measure)
