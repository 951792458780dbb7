"""Numbered SQL migrations, applied once, by whichever process comes first.

They expand first and contract later: workers of the version before go on serving after a migration, unless it says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from store.connection import Connection

_ONE_AT_A_TIME = 0x5241_5443_4845_5431  # any number that nobody else locks

LAST_UNTOLD: Final = 30
"""Up to this version migrations said nothing of workers that do not know them. Those were not to serve any more."""

_COMPATIBLE_SINCE = re.compile(r"^-- compatible since (\d+)\b", re.MULTILINE)


class StoreError(RuntimeError):
    """The store refuses for good; the message says what to do."""


class SchemaTooNew(StoreError):
    """The database was migrated by a newer Ratchet than this one."""


class SchemaTooOld(StoreError):
    """The database has the schema of a pre-release, from which no migration leads on."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def compatible_since(self) -> int | None:
        """The oldest schema whose workers can live with this one; None: whoever could live with the one before."""
        if self.version <= LAST_UNTOLD:
            return self.version
        told = _COMPATIBLE_SINCE.search(self.sql)
        return int(told[1]) if told else None


@cache
def migrations() -> tuple[Migration, ...]:
    """All that this version of Ratchet knows, in order."""
    found = [file for file in files(f"{__package__}.migrations").iterdir() if file.name.endswith(".sql")]
    known = (Migration(int(file.name[:4]), file.name[5:-4], file.read_text("utf-8")) for file in found)
    return tuple(sorted(known, key=lambda migration: migration.version))


async def migrate(connection: Connection, known: tuple[Migration, ...] | None = None) -> None:
    """Bring the schema up to date, all of it or nothing."""
    known = migrations() if known is None else known
    newest = known[-1].version
    if await _version(connection) == newest or await serves_newer(connection, newest):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _ONE_AT_A_TIME)
        # Before anything is read: only a statement that locks makes us notice tables that came while we waited.
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations"
            " (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        present = await _version(connection)
        if present > newest:
            raise SchemaTooNew(
                f"the database has schema version {present}, this Ratchet knows {newest}: "
                "upgrade Ratchet, or use another database"
            )
        if is_of_a_pre_release(present, known):
            raise SchemaTooOld(
                f"the database has schema version {present} of a pre-release; "
                f"this Ratchet begins anew with {known[0].version}: "
                "give it an empty database (another DATABASE_URL, or another --home), "
                "or read the old one with the version that wrote it"
            )
        await connection.execute("ALTER TABLE schema_migrations ADD COLUMN IF NOT EXISTS compatible_since integer")
        since = known[0].version
        for migration in known:
            since = since if migration.compatible_since is None else migration.compatible_since
            if migration.version > present:
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO schema_migrations (version, name, compatible_since) VALUES ($1, $2, $3)",
                    *(migration.version, migration.name, since),
                )


def is_of_a_pre_release(present: int, known: tuple[Migration, ...]) -> bool:
    """Whether a schema is older than the first one that can be brought up to date; 0 is an empty database."""
    return 0 < present < known[0].version


async def serves_newer(connection: Connection, newest: int | None = None) -> bool:
    """Whether somebody has migrated past what this Ratchet knows, to a schema that it can live with."""
    newest = migrations()[-1].version if newest is None else newest
    if await _version(connection) <= newest:
        return False
    # As JSON, since a database of before has no such column.
    since = await connection.fetchval(
        "SELECT (to_jsonb(schema_migrations) ->> 'compatible_since')::integer FROM schema_migrations"
        " ORDER BY version DESC LIMIT 1"
    )
    return since is not None and newest >= since


async def newer_version(connection: Connection) -> tuple[int, int] | None:
    """The schema's version and the newest that this Ratchet knows, where somebody has migrated past it."""
    present, newest = await _version(connection), migrations()[-1].version
    return (present, newest) if present > newest else None


async def _version(connection: Connection) -> int:
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return 0
    return int(await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_migrations"))
