"""A real PostgreSQL for the session, and a fresh database for every test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest

from store.connection import Database
from store.read.reader import StoreReader
from store.write.repositories import Store
from tests.support.interrupted_database import InterruptedDatabase
from tests.support.measured_runs import MeasuredRun
from tests.support.store_examples import TEMPLATE, ExampleRun, PostgresServer, started_server


@pytest.fixture(scope="session")
def postgres_process() -> Iterator[PostgresServer]:
    server = started_server()
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
    server = started_server()
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


@pytest.fixture
def example(store: Store, database: Database) -> ExampleRun:
    return ExampleRun(store, database)


@pytest.fixture
def reader(database: Database) -> StoreReader:
    return StoreReader(database)


@pytest.fixture(scope="session")
async def shared_database(postgres: PostgresServer) -> AsyncIterator[InterruptedDatabase]:
    """One for all tests that measure runs of their own making, one after the other."""
    database = await InterruptedDatabase.open(postgres.url(await postgres.new_database()))
    yield database
    await database.close()


@pytest.fixture
async def measured_runs(shared_database: InterruptedDatabase) -> AsyncIterator[None]:
    MeasuredRun.database = shared_database
    yield
    await shared_database.empty()
