"""Live events over HTTP: from the transaction that stores an event to the thousand readers that are shown it.

    python -m benchmarks.events [--quick]

One `ratchet serve` process, one run, a thousand streams. An event counts as stored from the moment before its commit, and as
shown when a reader has parsed it, both on this machine's clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from benchmarks.figures import Figure, main
from benchmarks.processes import ROOT, BenchServers, bench_servers
from benchmarks.specs import spec
from store.connection import Database
from store.events import EVENTS_CHANNEL, Event, announce, lock_run

RUN = "events"
LARGE = "large"
RUNS_COMPARED = 10
READERS = 1000
SECONDS_BETWEEN = 0.25
SLOW_READERS = 200
READERS_BESIDE = 100


async def measure(quick: bool) -> list[Figure]:
    live, replayed, heavy, samples = (60, 20_000, 1_500, 1_000) if quick else (400, 100_000, 5_000, 5_000)
    async with bench_servers() as servers:
        async with servers.worker():
            await servers.run(RUN, spec("instant", 20, rounds=2))
            await servers.run(LARGE, spec("instant", samples, rounds=1))
        database = await Database.open(servers.stack.database_url)
        try:
            async with serving(servers) as server:
                figures = await latency(server, database, live)
                figures += await slow_readers(server, database, heavy)
                figures += await beside_matrices(server, database, live)
                figures += await beside_comparisons(server, database, live // 2, samples)
                figures += await replay(server, database, replayed)
        finally:
            await database.close()
    return figures


@dataclass(frozen=True)
class Server:
    """`ratchet serve`, and what it costs."""

    pid: int
    url: str

    @property
    def resident_kb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 1024

    @property
    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    def path(self, after: int) -> str:
        return f"/v1/private/optimizations/{RUN}/events?last_event_id={after}"


@asynccontextmanager
async def serving(servers: BenchServers) -> AsyncIterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = {"TEMPORAL_ADDRESS": servers.stack.temporal_address, "DATABASE_URL": servers.stack.database_url}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "clients.cli", "--home", str(servers.folder / "serving"), "serve", "--port", str(port),
        "--no-token", cwd=ROOT, env=os.environ | told, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield Server(process.pid, f"http://127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


@asynccontextmanager
async def readers(server: Server, after: int, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Streams that are open and wait, in a process of their own."""
    async with beside("benchmarks.event_readers", server, server.path(after), count) as process:
        yield process


@asynccontextmanager
async def beside(module: str, server: Server, path: str, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Readers in a process of their own, once all of them are there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, server.url, path, str(count),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**28,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()).strip() == b"ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def told_by(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    told: dict[str, Any] = json.loads(await process.stdout.readline())
    return told


def waits_of(told: dict[str, Any], stored: dict[int, float]) -> list[float]:
    """How long each reader waited for each of these events, the shortest wait first."""
    had = [(int(event), moments) for event, moments in told["had"].items()]
    return sorted(shown - stored[event] for event, moments in had if event in stored for shown in moments)


async def note(database: Database, key: str, count: int = 1, padding: str = "") -> tuple[int, float]:
    """Store events as activities do; the id of the last one, and the moment before the commit."""
    async with database.transaction() as connection:
        run = await lock_run(connection, RUN)
        payload = {"round": 3, "status": "completed", "score": 0.734, "candidate_id": "r3-0123abcd", "padding": padding}
        happened = [Event(f"{key}/{n}", "trial_added_or_updated", payload) for n in range(count)]
        await announce(connection, run, happened)
        newest = int(await connection.fetchval("SELECT max(id) FROM events WHERE run_id = $1", RUN))
        return newest, time.monotonic()


async def newest_event(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT max(id) FROM events WHERE run_id = $1", RUN))


async def latency(server: Server, database: Database, count: int) -> list[Figure]:
    """What a thousand readers wait for each event, and what they cost the server."""
    alone = server.resident_kb
    stored: dict[int, float] = {}
    async with readers(server, await newest_event(database), READERS) as process:
        busy = server.cpu_seconds
        for number in range(count):
            event, moment = await note(database, f"live/{number}")
            stored[event] = moment
            await asyncio.sleep(SECONDS_BETWEEN)
        await asyncio.sleep(1)
        together, busy = server.resident_kb, server.cpu_seconds - busy
        told = await told_by(process)
    waits = waits_of(told, stored)
    lost = count * READERS - len(waits)
    return [
        Figure(f"stored to shown, {READERS:,} readers, p50", quantile(waits, 0.5) * 1000, 50.0, "ms"),
        Figure(f"stored to shown, {READERS:,} readers, p99", quantile(waits, 0.99) * 1000, 250.0, "ms"),
        Figure("events lost or handed over twice", lost + told["twice"], 0.0),
        Figure("processor time of the server per event and reader", busy * 1e6 / (count * READERS), None, "µs"),
        Figure("memory per reader", (together - alone) / READERS, 64.0, "kB"),
    ]


async def slow_readers(server: Server, database: Database, count: int) -> list[Figure]:
    """Readers that take nothing while megabytes are stored: they must not grow, and nobody else may wait for them."""
    after, before = await newest_event(database), server.resident_kb
    sockets = [await stuck_reader(server, after) for _ in range(SLOW_READERS)]
    try:
        async with readers(server, after, 10) as process:
            stored: dict[int, float] = {}
            for batch in range(count // 50):
                event, moment = await note(database, f"heavy/{batch}", 50, padding="x" * 2000)
                stored[event] = moment
                await asyncio.sleep(0.05)
            await asyncio.sleep(2)
            grown = server.resident_kb - before
            told = await told_by(process)
            waits = waits_of(told, stored)
    finally:
        for stuck in sockets:
            stuck.close()
    megabytes = count * 2000 / 2**20
    return [
        Figure(f"memory per reader that is stuck while {megabytes:.0f} MB pass it", grown / SLOW_READERS, 160.0, "kB"),
        Figure(f"stored to shown beside {SLOW_READERS} stuck readers, p99", quantile(waits, 0.99) * 1000, 250.0, "ms"),
    ]


async def beside_matrices(server: Server, database: Database, count: int) -> list[Figure]:
    """A thousand readers that have the matrix of the run open, and look again as its trials end."""
    stored: dict[int, float] = {}
    matrix = f"/v1/private/optimizations/{LARGE}/matrix"
    async with (
        readers(server, await newest_event(database), READERS) as process,
        beside("benchmarks.matrix_readers", server, matrix, READERS) as looking,
    ):
        for number in range(count):
            event, moment = await note(database, f"matrix/{number}")
            stored[event] = moment
            await asyncio.sleep(SECONDS_BETWEEN)
        looks = sorted((await told_by(looking))["took"])
        await asyncio.sleep(1)
        told = await told_by(process)
    waits = waits_of(told, stored)
    what = f"{READERS:,} readers have the matrix open"
    return [
        Figure(f"stored to shown while {what}, p99", quantile(waits, 0.99) * 1000, 250.0, "ms"),
        Figure("what a look at the matrix takes meanwhile, p95", quantile(looks, 0.95) * 1000, None, "ms"),
        Figure("looks at the matrix meanwhile, a second", len(looks) / (count * SECONDS_BETWEEN)),
    ]


async def beside_comparisons(server: Server, database: Database, count: int, samples: int) -> list[Figure]:
    """Readers of events while somebody compares runs again and again: statistics must not hold up the event loop."""
    names = [LARGE, *[await copy_of_large(database, number) for number in range(1, RUNS_COMPARED)]]
    stored: dict[int, float] = {}
    compared = 0

    async def compare_again_and_again() -> None:
        nonlocal compared
        async with httpx.AsyncClient(base_url=server.url, timeout=600) as http:
            while True:
                answered = await http.get("/v1/private/comparison", params={"of": names})
                assert answered.status_code == 200, answered.text
                compared += 1

    async with readers(server, await newest_event(database), READERS_BESIDE) as process:
        comparing = asyncio.create_task(compare_again_and_again())
        number = 0
        while number < count or not compared:
            event, moment = await note(database, f"compared/{number}")
            stored[event] = moment
            number += 1
            await asyncio.sleep(SECONDS_BETWEEN)
            if comparing.done():
                comparing.result()
        comparing.cancel()
        await asyncio.gather(comparing, return_exceptions=True)
        await asyncio.sleep(1)
        told = await told_by(process)
    waits = waits_of(told, stored)
    what = f"{RUNS_COMPARED} runs of {samples:,} samples are compared"
    return [
        Figure(f"stored to shown while {what}, p99", quantile(waits, 0.99) * 1000, 250.0, "ms"),
        Figure(f"how often {what} meanwhile", compared, None),
    ]


async def copy_of_large(database: Database, number: int) -> str:
    """The run once more under a name of its own, with other scores: what comparing reads of a run."""
    name = f"{LARGE}-{number}"
    async with database.transaction() as connection:
        for table in ("runs", "suites", "suite_samples", "candidates", "trials", "answers"):
            await connection.execute(
                f"INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object('run_id', $2::text))).*"
                f" FROM {table} t WHERE run_id = $1",
                LARGE,
                name,
            )
        await connection.execute(
            "UPDATE trials SET sample_means = (SELECT array_agg(mean + random() / 10) FROM unnest(sample_means) mean)"
            " WHERE run_id = $1",
            name,
        )
    return name


async def stuck_reader(server: Server, after: int) -> socket.socket:
    """A stream that is asked for and never read."""
    host, port = server.url.removeprefix("http://").split(":")
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await asyncio.to_thread(stuck.connect, (host, int(port)))
    stuck.sendall(f"GET {server.path(after)} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    return stuck


async def replay(server: Server, database: Database, count: int) -> list[Figure]:
    """A reader that comes late and wants all of it."""
    before = await newest_event(database)
    async with database.transaction() as connection:
        await lock_run(connection, RUN)
        await connection.execute(
            "INSERT INTO events (run_id, event_key, type, payload) SELECT $1, 'replay/' || n, 'trial_added_or_updated',"
            " jsonb_build_object('round', n, 'status', 'completed', 'score', 0.5, 'candidate_id', 'r' || n)"
            " FROM generate_series(1, $2) n",
            RUN,
            count,
        )
        await connection.execute("SELECT pg_notify($1, $2)", EVENTS_CHANNEL, RUN)
    resident, began = server.resident_kb, time.monotonic()
    async with readers(server, before, 1) as process:
        while True:
            await asyncio.sleep(0.2)
            if await handed_over(process):
                break
        told = await told_by(process)
    moments = [moment for had in told["had"].values() for moment in had]
    seconds = max(moments) - began
    return [
        Figure(f"replay of {count:,} events", seconds, None, "s"),
        Figure("events replayed per second", count / seconds, at_least=5000.0),
        Figure("events of the replay lost or handed over twice", abs(count - len(moments)) + told["twice"], 0.0),
        Figure("memory that the replay leaves behind", (server.resident_kb - resident) / 1024, 20.0, "MB"),
    ]


async def handed_over(process: asyncio.subprocess.Process, quiet: float = 1.0) -> bool:
    """Whether the reader has not worked for a while: it has everything."""
    before = psutil.Process(process.pid).cpu_times()
    await asyncio.sleep(quiet)
    after = psutil.Process(process.pid).cpu_times()
    return after.user + after.system - before.user - before.system < 0.02


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


if __name__ == "__main__":
    main(f"Live events, {READERS:,} readers of one run on one process", measure)
