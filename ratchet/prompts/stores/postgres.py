"""Prompts in PostgreSQL: a tag's move and its history are one transaction, and listeners are told of it.

Where keys are set, templates and states are encrypted as the store's contents are; names, tags, versions, hashes and who
changed what are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg

from ratchet._content_tokens import ContentLocked, ContentTokens
from ratchet._encryption import EncryptionKeys
from ratchet.prompts.overrides import TagState
from ratchet.prompts.prompt_errors import StoreAway, StoreRefused, VersionTaken

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]

CHANNEL = "ratchet_prompts"
MOST_CONNECTIONS = 4
SECONDS_TO_CONNECT = 5.0
SECONDS_A_COMMAND_MAY_TAKE = 30.0

_COMES_BACK = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
)
_NOT_SET_UP = (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError)

_NEWEST = "SELECT c.state FROM prompt_tags t JOIN prompt_changes c USING (name, tag, revision) WHERE t.name = $1"


class PostgresBackend:
    """Prompts in the tables of a database that Ratchet has set up."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], url: str, keys: EncryptionKeys | None) -> None:
        self._pool = pool
        self._url = url
        self._tokens = ContentTokens(keys)

    @classmethod
    async def open(cls, url: str, keys: EncryptionKeys | None = None) -> PostgresBackend:
        with _told(url):
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=MOST_CONNECTIONS,
                timeout=SECONDS_TO_CONNECT,
                command_timeout=SECONDS_A_COMMAND_MAY_TAKE,
                reset=_nothing,  # we leave no session state behind
                server_settings={"application_name": "ratchet-prompts", "jit": "off"},
            )
        try:
            with _told(url):
                await pool.fetchval("SELECT 1 FROM prompt_tags LIMIT 1")
        except BaseException:
            pool.terminate()
            raise
        return cls(pool, url, keys)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), timeout=5)
        except TimeoutError:
            self._pool.terminate()

    async def current(self, name: str, tag: str) -> TagState | None:
        async with self._connection() as connection:
            state = await connection.fetchval(f"{_NEWEST} AND t.tag = $2", name, tag)
        return None if state is None else self._state(state)

    async def swap(self, state: TagState) -> bool:
        async with self._connection() as connection, connection.transaction():
            await self._admit(connection)
            # Whoever comes second waits here for the first one's transaction, and then sees what it did.
            if state.revision == 1:
                await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"{state.name}/{state.tag}")
            newest = await connection.fetchval(
                "SELECT revision FROM prompt_tags WHERE name = $1 AND tag = $2 FOR UPDATE", state.name, state.tag
            )
            if (newest or 0) + 1 != state.revision:
                return False
            await self._add(connection, state)
            if state.version is not None:
                await self._keep_version(connection, state)
            await connection.execute(
                "INSERT INTO prompt_tags (name, tag, revision) VALUES ($1, $2, $3)"
                " ON CONFLICT (name, tag) DO UPDATE SET revision = excluded.revision",
                state.name,
                state.tag,
                state.revision,
            )
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, state.name)
        return True

    async def purge(self, state: TagState) -> bool:
        async with self._connection() as connection, connection.transaction():
            removed = await connection.fetchval(
                "DELETE FROM prompt_tags WHERE name = $1 AND tag = $2 AND revision = $3 RETURNING revision",
                state.name,
                state.tag,
                state.revision,
            )
            if removed is None:
                return False
            await connection.execute("DELETE FROM prompt_changes WHERE name = $1 AND tag = $2", state.name, state.tag)
            await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, state.name)
        return True

    async def history(self, name: str, tag: str) -> list[TagState]:
        return await self._states("SELECT state FROM prompt_changes WHERE name = $1 AND tag = $2 ORDER BY revision", name, tag)

    async def tags(self, name: str) -> list[TagState]:
        return await self._states(_NEWEST, name)

    async def versions(self, name: str) -> list[TagState]:
        return await self._states(
            "SELECT c.state FROM prompt_versions v JOIN prompt_changes c USING (name, tag, revision) WHERE v.name = $1", name
        )

    async def keep_template(self, name: str, template_hash: str, content: str) -> None:
        async with self._connection() as connection:
            await self._admit(connection)
            await connection.execute(
                "INSERT INTO prompt_templates (name, template_hash, template) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                name,
                template_hash,
                self._tokens.json(content),
            )

    async def template(self, name: str, template_hash: str) -> str | None:
        async with self._connection() as connection:
            content: str | None = await connection.fetchval(
                "SELECT template FROM prompt_templates WHERE name = $1 AND template_hash = $2", name, template_hash
            )
        return None if content is None else self._plain(content)

    async def templates(self, name: str) -> list[str]:
        async with self._connection() as connection:
            rows = await connection.fetch("SELECT template_hash FROM prompt_templates WHERE name = $1 ORDER BY 1", name)
        return [row["template_hash"] for row in rows]

    async def names(self) -> list[str]:
        async with self._connection() as connection:
            rows = await connection.fetch("SELECT DISTINCT name FROM prompt_templates")
        return [row["name"] for row in rows]

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[asyncio.Queue[str | None]]:
        """The names of prompts whose tags move, as they move; None says that the connection was lost and listening is over."""
        moved: asyncio.Queue[str | None] = asyncio.Queue()
        with _told(self._url):
            connection = await asyncpg.connect(self._url, timeout=SECONDS_TO_CONNECT)
        try:
            connection.add_termination_listener(lambda _: moved.put_nowait(None))
            with _told(self._url):
                await connection.add_listener(CHANNEL, lambda _connection, _pid, _channel, name: moved.put_nowait(name))
            yield moved
        finally:
            connection.terminate()

    async def _states(self, query: str, *arguments: str) -> list[TagState]:
        async with self._connection() as connection:
            rows = await connection.fetch(query, *arguments)
        return [self._state(row["state"]) for row in rows]

    async def _admit(self, connection: Connection) -> None:
        """Refuse to write what others could not read, or in clear where contents are encrypted; note the key that is used."""
        noted = await connection.fetch("SELECT key_id, proof FROM encryption_keys")
        refusal = self._tokens.refusal([tuple(row) for row in noted])
        if refusal is not None:
            raise StoreRefused(f"PostgreSQL at {_place(self._url)}: {refusal}")
        if self._tokens.first is not None and self._tokens.first not in [row["key_id"] for row in noted]:
            await connection.execute(
                "INSERT INTO encryption_keys (key_id, proof) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                self._tokens.first,
                self._tokens.proof(),
            )

    def _state(self, stored: str) -> TagState:
        return TagState.model_validate_json(self._plain(stored))

    def _plain(self, stored: str) -> str:
        try:
            return self._tokens.plain_json(stored)
        except ContentLocked as error:
            raise StoreRefused(f"a prompt in PostgreSQL at {_place(self._url)} cannot be read: {error}") from None

    async def _add(self, connection: Connection, state: TagState) -> None:
        await connection.execute(
            "INSERT INTO prompt_changes (name, tag, revision, change_id, action, version, template_hash, config_hash, deleted,"
            " changed_by, why, changed_at, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            state.name,
            state.tag,
            state.revision,
            state.change.id,
            state.change.action,
            state.version,
            state.template_hash,
            state.config_hash,
            state.deleted,
            state.change.by,
            state.change.why,
            state.change.at,
            self._tokens.json(state.model_dump_json(), {"temporary": state.temporary}),
        )

    async def _keep_version(self, connection: Connection, state: TagState) -> None:
        added = await connection.fetchval(
            "INSERT INTO prompt_versions (name, version, tag, revision) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT DO NOTHING RETURNING version",
            state.name,
            state.version,
            state.tag,
            state.revision,
        )
        if added is not None:
            return
        kept = self._state(
            await connection.fetchval(
                "SELECT c.state FROM prompt_versions v JOIN prompt_changes c USING (name, tag, revision)"
                " WHERE v.name = $1 AND v.version = $2",
                state.name,
                state.version,
            )
        )
        if not kept.holds_the_same(state):
            raise VersionTaken.by(kept)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        with _told(self._url):
            async with self._pool.acquire(timeout=SECONDS_TO_CONNECT * 2) as connection:
                yield connection


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of PostgreSQL, as errors of this store; the address is shown without its password."""
    try:
        yield
    except _NOT_SET_UP as error:
        raise StoreRefused(
            f"PostgreSQL at {_place(url)}: {error}; let a Ratchet worker or `ratchet doctor` set the database up first"
        ) from None
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise StoreRefused(f"PostgreSQL at {_place(url)}: {error}") from None
    except _COMES_BACK as error:
        raise StoreAway(f"PostgreSQL at {_place(url)} does not answer: {error or type(error).__name__}") from None


def _place(url: str) -> str:
    """Host, port and database of a URL: what may be shown of it."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
    except ValueError:
        return "the given address"


async def _nothing(_connection: object) -> None:
    pass
