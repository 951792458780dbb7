"""Whatever is killed, no event is lost and none comes twice: the API's process, PostgreSQL, the connection that listens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.own_modules import python_path
from clients.runs.service.servers import Servers
from store.connection import Database, is_away
from store.events import Event, announce, lock_run
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.event_streams import RawStream, reading
from tests.support.store_examples import ExampleRun, PostgresServer, started_server


def events_path(run_id: str, last: int = 0) -> str:
    return f"/v1/private/optimizations/{run_id}/events?last_event_id={last}"


async def note(database: Database, run_id: str, key: str) -> None:
    """Announce something, however long the store is away."""
    async with asyncio.timeout(30):
        while True:
            try:
                async with database.transaction() as connection:
                    await announce(
                        connection, await lock_run(connection, run_id), [Event(key, "progress_changed", {"key": key})]
                    )
                return
            except Exception as error:
                if not is_away(error):
                    raise
                await asyncio.sleep(0.05)


async def ids(database: Database, run_id: str) -> list[int]:
    return [event.id for event in await StoreReader(database).events.after(run_id, limit=10_000)]


@pytest.fixture
async def mortal() -> AsyncIterator[PostgresServer]:
    server = started_server()
    await server.until_it_answers()
    await server.execute("CREATE DATABASE ratchet")
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
async def example(mortal: PostgresServer) -> AsyncIterator[ExampleRun]:
    database = await Database.open(mortal.url("ratchet"))
    yield await ExampleRun(Store(database), database).open()
    await database.close()


@asynccontextmanager
async def served(servers: Servers, mortal: PostgresServer) -> AsyncIterator[str]:
    there = replace(servers, database_url=mortal.url("ratchet"))
    async with serving_http(there, Trust.of("127.0.0.1", None), "optimization", port=0) as address:
        yield address.url


async def test_streams_outlive_a_killed_postgresql(servers: Servers, mortal: PostgresServer, example: ExampleRun) -> None:
    run_id, database = example.run_id, example.database
    async with (
        served(servers, mortal) as url,
        reading(url, events_path(run_id)) as one,
        reading(url, events_path(run_id)) as other,
    ):
        for death in range(3):
            writing = asyncio.create_task(write_many(database, run_id, f"death {death}"))
            await one.next()
            mortal.kill()
            mortal.start()
            await mortal.until_it_answers()
            await writing
            await drain(one, (await ids(database, run_id))[-1])
        everything = await ids(database, run_id)
        assert [event.id for event in await other.take(len(everything))] == everything


async def write_many(database: Database, run_id: str, key: str) -> None:
    for n in range(30):
        await note(database, run_id, f"{key}/{n}")


async def rest_of(stream: RawStream) -> list[int]:
    """What was on its way when the other side died."""
    rest: list[int] = []
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            rest.append((await stream.next()).id)
    return rest


async def drain(stream: RawStream, last: int) -> None:
    while (await stream.next()).id < last:
        pass


async def test_a_lost_listening_connection_is_replaced(servers: Servers, mortal: PostgresServer, example: ExampleRun) -> None:
    run_id, database = example.run_id, example.database
    async with served(servers, mortal) as url, reading(url, events_path(run_id)) as stream:
        await stream.next()
        for n in range(3):
            async with database.connection() as connection:
                await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
            await note(database, run_id, f"after {n}")
            assert (await stream.next(within=4)).data["key"].endswith(f"after {n}")


@asynccontextmanager
async def serving_process(
    mortal: PostgresServer, servers: Servers, port: int, home: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`ratchet serve` as a person starts it, on servers that the environment names."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "RATCHET_"))}
    environment |= {
        "DATABASE_URL": mortal.url("ratchet"),
        "TEMPORAL_ADDRESS": servers.temporal_address,
        "PYTHONPATH": python_path(),
    }
    command = [sys.executable, "-m", "clients.cli", "--home", str(home), "serve", "--port", str(port), "--no-token"]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert f"http://127.0.0.1:{port}" in (await process.stdout.readline()).decode()
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def test_a_killed_api_loses_no_event_and_repeats_none(
    servers: Servers, mortal: PostgresServer, example: ExampleRun, tmp_path: Path
) -> None:
    run_id, database = example.run_id, example.database
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    seen: list[int] = []
    for life in range(3):
        async with serving_process(mortal, servers, port, tmp_path) as process:
            async with reading(url, events_path(run_id, seen[-1] if seen else 0)) as stream:
                writing = asyncio.create_task(write_many(database, run_id, f"life {life}"))
                seen += [(await stream.next()).id for _ in range(10)]
                process.kill()
                await process.wait()
                seen += await rest_of(stream)
            await writing
    async with serving_process(mortal, servers, port, tmp_path), reading(url, events_path(run_id, seen[-1])) as stream:
        everything = await ids(database, run_id)
        seen += [(await stream.next()).id for _ in range(len(everything) - len(seen))]
    assert seen == everything


async def test_a_server_that_is_asked_to_stop_ends_its_streams_and_is_gone(
    servers: Servers, mortal: PostgresServer, example: ExampleRun, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    async with serving_process(mortal, servers, port, tmp_path) as process, reading(url, events_path(example.run_id)) as stream:
        await stream.next()
        process.send_signal(signal.SIGTERM)
        with pytest.raises(EOFError):
            await stream.next(within=4)
        async with asyncio.timeout(8):
            assert await process.wait() == 0
