"""The connection to PostgreSQL: a pool that reconnects by itself, migrations on start, and which errors pass by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self, TypeAlias
from urllib.parse import urlsplit

import asyncpg
import structlog
from asyncpg.pool import PoolConnectionProxy

from ratchet._content_tokens import ContentLocked
from ratchet._encryption import EncryptionKeys
from store.encrypted_contents import Contents, StoreConnection, admit
from store.schema import StoreError, migrate, newer_version

log = structlog.get_logger("store")

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"

MOST_CONNECTIONS = 10
SECONDS_TO_CONNECT = 5.0
SECONDS_A_COMMAND_MAY_TAKE = 120.0

_PASSES_BY_ITSELF = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,
    asyncpg.InvalidCachedStatementError,  # the schema moved under a prepared statement
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DiskFullError,
    asyncpg.ReadOnlySQLTransactionError,  # a server that has just lost its primary
    asyncpg.TransactionRollbackError,  # deadlocks and serialization failures
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
)
_OF_ANOTHER_SCHEMA = (asyncpg.SyntaxOrAccessError, asyncpg.NotNullViolationError, asyncpg.CheckViolationError)
"""What PostgreSQL says to a worker that was written for tables that have changed since."""

_LOST = ("closed", "closing", "released back to the pool")


class StoreAway(ConnectionError):
    """The store cannot be reached; trying again may help."""


class SchemaMoved(StoreAway):
    """The tables are newer than this process: a process of the new version can do what this one cannot any more."""


def is_away(error: BaseException) -> bool:
    """Whether an error says no more than "not now": the same call may well succeed later."""
    if isinstance(error, _PASSES_BY_ITSELF):
        return True
    if isinstance(error, asyncpg.DataError | asyncpg.ClientConfigurationError):
        return False
    # What is left of InterfaceError, apart from bad arguments, is a connection that was closed under our feet.
    return type(error) is asyncpg.InterfaceError and any(words in str(error) for words in _LOST)


class Database:
    """A pool of connections to a migrated database."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], url: str, keys: EncryptionKeys | None = None) -> None:
        self._pool = pool
        self.url = url
        self.keys = keys

    @classmethod
    async def open(cls, url: str, *, most_connections: int = MOST_CONNECTIONS, keys: EncryptionKeys | None = None) -> Self:
        """Connect and bring the schema up to date. Any number of processes may do so at once.

        With keys, contents are encrypted; without those that it was encrypted with before, a database is refused.
        """
        place = place_of(url)
        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=most_connections,
                timeout=SECONDS_TO_CONNECT,
                connection_class=StoreConnection,
                init=None if keys is None else Contents(keys).prepare,
                # We leave no session state behind, so a connection needs no cleaning, which would cost a round trip.
                reset=_nothing,
                server_settings={
                    "application_name": "ratchet",
                    "jit": "off",
                    "idle_in_transaction_session_timeout": "60s",  # a frozen worker must not keep a run locked
                },
                command_timeout=SECONDS_A_COMMAND_MAY_TAKE,
            )
        except ValueError:  # asyncpg.ClientConfigurationError, or what int() says of a port; both may show the whole URL
            raise StoreError("DATABASE_URL is not usable; write postgresql://user:password@host:port/database") from None
        except asyncpg.InvalidAuthorizationSpecificationError as error:
            raise StoreError(f"PostgreSQL at {place} refuses the login: {error}") from None
        except asyncpg.InvalidCatalogNameError as error:
            raise StoreError(f"PostgreSQL at {place}: {error}; create it first") from None
        except Exception as error:
            if is_away(error):
                raise StoreAway(f"PostgreSQL at {place} does not answer: {error or type(error).__name__}") from None
            raise
        try:
            async with pool.acquire() as connection:
                await migrate(connection)
                await admit(connection, keys)
        except BaseException as error:
            pool.terminate()
            if is_away(error):
                raise StoreAway(f"PostgreSQL at {place} went away: {error or type(error).__name__}") from None
            raise
        return cls(pool, url, keys)

    async def close(self) -> None:
        """Give every connection back; what still runs after a few seconds is cut off."""
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5)
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection of the pool, outside any transaction."""
        try:
            async with self._pool.acquire(timeout=SECONDS_TO_CONNECT * 2) as connection:
                yield connection
        except ContentLocked as error:
            log.warning("a content cannot be decrypted here", error=str(error))
            raise StoreAway(str(error)) from None
        except _OF_ANOTHER_SCHEMA as error:
            await self._refuse_newer_schema(error)
            raise

    async def _refuse_newer_schema(self, error: Exception) -> None:
        """During an upgrade the tables change while workers of the old version still serve. No run may fail for that."""
        async with self._pool.acquire(timeout=SECONDS_TO_CONNECT * 2) as connection:
            moved = await newer_version(connection)
        if moved is not None:
            present, known = moved
            told = f"the database has schema version {present}, this worker knows {known}: it waits for one of the new version"
            log.warning(told, error=str(error))
            raise SchemaMoved(told) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection inside a transaction that commits at the end of the block."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A connection whose queries all see the same moment; it writes nothing."""
        async with self.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection

    @asynccontextmanager
    async def notifications(self, channel: str) -> AsyncIterator[asyncio.Queue[str | None]]:
        """What arrives on a channel, as a queue of payloads; None says that the connection was lost and listening is over."""
        received: asyncio.Queue[str | None] = asyncio.Queue()
        connection = await asyncpg.connect(self.url, timeout=SECONDS_TO_CONNECT)
        try:
            connection.add_termination_listener(lambda _: received.put_nowait(None))
            await connection.add_listener(channel, lambda _connection, _pid, _channel, payload: received.put_nowait(payload))
            yield received
        finally:
            connection.terminate()


def place_of(url: str) -> str:
    """Host, port and database of a URL: what may be shown of it."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
    except ValueError:
        return "the given address"


async def _nothing(_connection: object) -> None:
    pass
