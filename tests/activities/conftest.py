"""A real PostgreSQL for the session, and a fresh database for every test."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from activities.store.connection import Database, is_away
from activities.store.writing import Store
from clients.embedded.postgres import postgres_binaries

TEMPLATE = "migrated"
_numbers = count()


@dataclass
class PostgresServer:
    """A throw-away server that can be killed and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    databases: list[str] = field(default_factory=list)

    def make_data(self) -> None:
        self._run("initdb", "-U", "ratchet", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D", "data")

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": os.environ.get("RATCHET_TEST_FSYNC", "off"),
            "jit": "off",
            "shared_buffers": "64MB",
            "max_connections": "60",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        self.process = subprocess.Popen(
            [postgres_binaries() / "postgres", "-D", "data", "-p", str(self.port), *options], **self._as_user(), cwd=self.folder
        )

    def kill(self) -> None:
        """The postmaster alone, as the kernel would; its children notice and end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def url(self, database: str) -> str:
        return f"postgresql://ratchet@127.0.0.1:{self.port}/{database}?sslmode=disable"

    async def until_it_answers(self) -> None:
        async with asyncio.timeout(20):
            while True:
                try:
                    connection = await asyncpg.connect(self.url("postgres"))
                except Exception as error:
                    if not is_away(error):
                        raise
                    await asyncio.sleep(0.01)
                else:
                    await connection.close()
                    return

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def new_database(self, template: str = TEMPLATE) -> str:
        name = f"test{next(_numbers)}"
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [postgres_binaries() / program, *arguments], **self._as_user(), cwd=self.folder, check=True, capture_output=True
        )

    def _as_user(self) -> dict[str, object]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {"stdin": subprocess.DEVNULL}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "stdin": subprocess.DEVNULL}


def _started_server() -> PostgresServer:
    folder = Path(tempfile.mkdtemp(prefix="ratchet-pg-"))
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = PostgresServer(folder, port)
    server.make_data()
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres_process() -> Iterator[PostgresServer]:
    server = _started_server()
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def postgres(postgres_process: PostgresServer) -> PostgresServer:
    """The session's server, with a migrated template that every test's database is copied from."""
    await postgres_process.until_it_answers()
    await postgres_process.execute(f"CREATE DATABASE {TEMPLATE}")
    database = await Database.open(postgres_process.url(TEMPLATE))
    await database.close()
    return postgres_process


@pytest.fixture
async def mortal_postgres() -> AsyncIterator[PostgresServer]:
    """A server of the test's own, for tests that kill it."""
    server = _started_server()
    await server.until_it_answers()
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
async def database_url(postgres: PostgresServer) -> AsyncIterator[str]:
    name = await postgres.new_database()
    yield postgres.url(name)
    await postgres.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(database_url)
    yield database
    await database.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)
