"""Tables as PostgreSQL copies them out and in: all that the store holds, for backups.

What is copied follows from the catalog and from the migrations, so a table that comes with a migration is in the next backup.
Tables that are not logged are left out: after a crash they are empty, too.
"""

# ruff: noqa: S608 (names of tables and columns are those of the catalog; every value is a parameter)

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from store.connection import Connection
from store.schema import StoreError, migrate, migrations, newer_version

MIGRATIONS: Final = "schema_migrations"
MARKS: Final = ("served_task_queues", "unserved_times", "encryption_keys")
"""Who serves which task queue, and with which keys: what processes write that have nothing to do yet."""

_CREATED: Final = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)", re.MULTILINE)
_FOREIGN: Final = """
    SELECT DISTINCT conrelid::regclass::text AS child, confrelid::regclass::text AS parent
    FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
"""
_COLUMNS: Final = """
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p'
      AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND c.relname = ANY($1)
    GROUP BY c.relname ORDER BY c.relname
"""

Write = Callable[[bytes], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table and those of its columns that are copied."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A migration that a database has."""

    version: int
    name: str
    applied_at: datetime


async def applied_migrations(connection: Connection) -> list[AppliedMigration]:
    """Those of a database, in order; none where it never was a store."""
    if await connection.fetchval("SELECT to_regclass($1)", MIGRATIONS) is None:
        return []
    moved = await newer_version(connection)
    if moved is not None:
        raise StoreError(f"the database has schema version {moved[0]}, this Ratchet knows {moved[1]}: upgrade Ratchet")
    rows = await connection.fetch(f"SELECT version, name, applied_at FROM {MIGRATIONS} ORDER BY version")
    return [AppliedMigration(**row) for row in rows]


async def copied_tables(connection: Connection) -> list[CopiedTable]:
    """The tables of the store, each after those that it refers to."""
    known = {name for migration in migrations() for name in _CREATED.findall(migration.sql)}
    rows = await connection.fetch(_COLUMNS, sorted(known))
    tables = {row["name"]: CopiedTable(row["name"], tuple(row["columns"])) for row in rows}
    parents: dict[str, set[str]] = {name: set() for name in tables}
    for row in await connection.fetch(_FOREIGN):
        if row["child"] in tables and row["parent"] in tables and row["child"] != row["parent"]:
            parents[row["child"]].add(row["parent"])
    return [tables[name] for name in _in_order(parents)]


def _in_order(parents: Mapping[str, set[str]]) -> Iterable[str]:
    done: dict[str, None] = {}
    while len(done) < len(parents):
        ready = [name for name in parents if name not in done and parents[name] <= done.keys()]
        if not ready:
            raise StoreError("tables refer to each other in a circle; this Ratchet cannot copy them")
        done.update(dict.fromkeys(ready))
    return done


async def copy_out(connection: Connection, table: CopiedTable, write: Write) -> int:
    """Hand every row over as text; how many there are."""
    copied = await connection.copy_from_table(table.name, columns=list(table.columns), output=write, timeout=float("inf"))
    return int(copied.rpartition(" ")[2])


async def copy_in(connection: Connection, table: CopiedTable, rows: AsyncIterator[bytes]) -> int:
    """Take rows in; how many came."""
    copied = await connection.copy_to_table(table.name, columns=list(table.columns), source=rows, timeout=float("inf"))
    return int(copied.rpartition(" ")[2])


async def sequences(connection: Connection) -> dict[str, int]:
    """What each sequence has given last; those that never gave anything are left out."""
    rows = await connection.fetch(
        "SELECT sequencename::text AS name, last_value FROM pg_sequences WHERE schemaname = current_schema()"
        " AND last_value IS NOT NULL ORDER BY 1"
    )
    return {row["name"]: row["last_value"] for row in rows}


async def go_on_counting(connection: Connection, last: Mapping[str, int]) -> None:
    """Let sequences go on where they were."""
    for name, value in last.items():
        await connection.execute("SELECT setval(quote_ident($1)::regclass, $2)", name, value)


async def make_schema(connection: Connection, wanted: Sequence[AppliedMigration]) -> None:
    """Give an empty database the schema of a backup; raise StoreError where there is anything in it, or a newer schema."""
    newest = wanted[-1].version
    known = tuple(migration for migration in migrations() if migration.version <= newest)
    if [migration.version for migration in known] != [migration.version for migration in wanted]:
        raise StoreError(
            f"the backup has schema version {newest}, this Ratchet knows {migrations()[-1].version}: upgrade Ratchet"
        )
    present = await applied_migrations(connection)
    if present:
        for table in await copied_tables(connection):
            if table.name not in MARKS and await connection.fetchval(f"SELECT EXISTS (SELECT FROM {table.name})"):
                raise StoreError(f"the database is not empty: there are rows in {table.name}; give an empty one")
        if present[-1].version > newest:
            raise StoreError(
                f"the database has schema version {present[-1].version} and the backup {newest}: "
                "give a database without any tables, which is then brought up to date"
            )
    await migrate(connection, known)
    for table in await copied_tables(connection):
        if table.name in MARKS:
            await connection.execute(f"DELETE FROM {table.name}")
    for migration in wanted:
        await connection.execute(
            f"UPDATE {MIGRATIONS} SET applied_at = $2 WHERE version = $1", migration.version, migration.applied_at
        )
