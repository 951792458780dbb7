"""Where the servers are: named by the environment, or embedded in the home directory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from clients.commands.context import CommandError, ExitCode
from clients.embedded.home import Home
from clients.embedded.stack import StackError, embedded_stack
from clients.runs.ended_runs import look_now
from clients.settings import client_settings, encryption_keys
from clients.temporal import DEFAULT_ADDRESS, connect
from store.connection import Database, StoreAway, is_away
from store.read.reader import StoreReader
from store.schema import StoreError

SECONDS_TO_CONNECT = 15.0
AWAY_AT_MOST = 120.0
"""Seconds that a command waits for servers to come back."""

SECONDS_BETWEEN_STEPS = 0.5
T = TypeVar("T")
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)


class ServersAway(CommandError):
    """A server that does not answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.UNREACHABLE)


@dataclass
class Servers:
    """Temporal and the store, connected."""

    client: Client
    database: Database
    database_url: str = field(repr=False)
    temporal_address: str
    namespace: str
    ui_url: str | None
    embedded: bool

    @property
    def reader(self) -> StoreReader:
        return StoreReader(self.database)

    def worker_environment(self) -> dict[str, str]:
        """What a worker of ours needs to reach the same servers."""
        if not self.embedded:
            return {"DATABASE_URL": self.database_url}
        return {
            "DATABASE_URL": self.database_url,
            "TEMPORAL_ADDRESS": self.temporal_address,
            "TEMPORAL_NAMESPACE": self.namespace,
            "TEMPORAL_CONFIG_FILE": os.devnull,
        }

    def page_of(self, run_id: str) -> str | None:
        """Where Temporal's own UI shows a run."""
        return None if self.ui_url is None else f"{self.ui_url}/namespaces/{self.namespace}/workflows/{quote(run_id, safe='')}"


def named_by_environment() -> bool:
    """Whether the environment names servers. Naming only one of the two is a mistake, not a mixture."""
    settings = client_settings()
    database = bool(settings.database_url)
    temporal = any((settings.temporal_address, settings.temporal_profile, settings.temporal_config_file))
    if database and not temporal:
        temporal = _address_in_environment() is not None
    if temporal and not database:
        raise CommandError(
            "TEMPORAL_ADDRESS names a Temporal server, but DATABASE_URL names no PostgreSQL; set it too, "
            "e.g. postgresql://user@host/ratchet, or unset both for the embedded servers"
        )
    if database and not temporal:
        raise CommandError(
            "DATABASE_URL names a PostgreSQL, but TEMPORAL_ADDRESS names no Temporal server; set it too, "
            "e.g. 127.0.0.1:7233, or unset both for the embedded servers"
        )
    return database


def _address_in_environment() -> str | None:
    try:
        return ClientConfig.load_client_connect_config().get("target_host")
    except Exception as error:  # the SDK's own type is private
        raise CommandError(f"Temporal's settings in the environment are not usable: {error}") from None


def has_data(home: Path) -> bool:
    """Whether there can be any runs: the environment names servers, or embedded ones were here before."""
    return named_by_environment() or Home.at(home).postgres_data.exists()


def task_queue() -> str:
    """Where runs are started: RATCHET_TASK_QUEUE, else `optimization`."""
    return client_settings().task_queue


@asynccontextmanager
async def reach_servers(home: Path) -> AsyncIterator[Servers]:
    """The servers that the environment names, or the embedded ones, which run at least as long as the block."""
    if named_by_environment():
        settings = client_settings()
        async with _connected(None, settings.database_url, settings.ui_url) as servers:
            yield servers
        return
    async with AsyncExitStack() as exits:
        try:
            stack = await exits.enter_async_context(embedded_stack(home))
        except StackError as error:
            raise ServersAway(f"the embedded servers do not start: {error}") from error
        yield await exits.enter_async_context(_connected(stack.temporal_address, stack.database_url, stack.ui_url))


@asynccontextmanager
async def reach_store(home: Path) -> AsyncIterator[str]:
    """The address of the store that the environment names, or of the embedded one. Nothing is opened, and nothing migrated."""
    if named_by_environment():
        yield client_settings().database_url
        return
    async with AsyncExitStack() as exits:
        try:
            stack = await exits.enter_async_context(embedded_stack(home, ui=False))
        except StackError as error:
            raise ServersAway(f"the embedded servers do not start: {error}") from error
        yield stack.database_url


async def open_store(url: str) -> Database:
    """The store at an address, brought up to date."""
    return await _database(url)


@asynccontextmanager
async def _connected(address: str | None, database_url: str, ui_url: str | None) -> AsyncIterator[Servers]:
    client = await _temporal(address)
    database = await _database(database_url)
    try:
        await look_now(client, database)
        config = client.service_client.config
        yield Servers(
            client, database, database_url, config.target_host, client.namespace, ui_url, embedded=address is not None
        )
    finally:
        await database.close()


async def _temporal(address: str | None) -> Client:
    named = address or _address_in_environment() or DEFAULT_ADDRESS
    try:
        client = await asyncio.wait_for(connect(address, serves=False), SECONDS_TO_CONNECT)
        await asyncio.wait_for(client.service_client.check_health(), SECONDS_TO_CONNECT)
    except (TimeoutError, OSError, RuntimeError, RPCError) as error:
        told = str(error) or f"no answer within {SECONDS_TO_CONNECT:g} s"
        raise ServersAway(f"Temporal at {named} cannot be reached: {told}; check TEMPORAL_ADDRESS") from error
    return client


async def _database(url: str) -> Database:
    try:
        return await asyncio.wait_for(Database.open(url, most_connections=4, keys=encryption_keys()), SECONDS_TO_CONNECT)
    except TimeoutError:
        raise ServersAway("the PostgreSQL of DATABASE_URL does not answer; check the address") from None
    except StoreAway as error:
        raise ServersAway(f"{error}; check DATABASE_URL") from error
    except StoreError as error:
        raise ServersAway(str(error)) from error


async def once_back(servers: Servers, step: Callable[[], Awaitable[T]], tell: Callable[[str], None]) -> T:
    """What a step gives that may be taken again, however often a server goes away meanwhile: embedded ones come back."""
    until = time.monotonic() + AWAY_AT_MOST
    while True:
        try:
            return await step()
        except Exception as error:
            if not is_unreachable(error):
                raise
            if time.monotonic() > until:
                raise ServersAway(f"a server is away: {servers.temporal_address} or PostgreSQL does not answer") from error
        tell("a server does not answer, trying again")
        await asyncio.sleep(SECONDS_BETWEEN_STEPS)


def told_away(error: BaseException) -> str:
    """What went away, in words: what a client library says of its connection means nothing to a person."""
    by_a_library = type(error).__module__.partition(".")[0] in ("asyncpg", "builtins")  # ours say themselves what they mean
    if not by_a_library or not is_away(error):
        return str(error) or type(error).__name__
    return "PostgreSQL went away; the same command works once it is back"


def is_unreachable(error: BaseException) -> bool:
    """Whether an error says that a server is away, whatever we were about to do."""
    if isinstance(error, RPCError):
        return error.status in _AWAY
    return is_away(error) or isinstance(error, StoreAway | StackError)
