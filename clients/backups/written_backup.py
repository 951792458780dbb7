"""Writing a backup: all tables as they are at one moment, and the prompts after them, which only grow."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import asyncpg

from clients.backups.archive import (
    PROMPTS,
    TABLES,
    Manifest,
    MigrationInBackup,
    PromptsInBackup,
    TableInBackup,
    WrittenArchive,
    written_archive,
)
from clients.own_modules import DISTRIBUTION
from clients.private_files import open_private
from clients.prompts.stores import POSTGRES
from ratchet.prompts import migrate, open_store
from store.connection import SECONDS_TO_CONNECT, Connection
from store.schema import StoreError
from store.table_copies import applied_migrations, copied_tables, copy_out, sequences


async def write_backup(database_url: str, overrides: str, file: Path) -> Manifest:
    """Write everything into a file that only its owner reads. It has its name only once it is whole."""
    part = file.with_name(f"{file.name}.part")
    try:
        with open_private(part, "wb") as written, written_archive(written) as archive:
            async with one_moment(database_url) as connection:
                manifest = await _tables(connection, archive)
            if overrides != POSTGRES:
                manifest = manifest.model_copy(update={"prompts": await _prompts(overrides, archive)})
            archive.close(manifest)
            written.flush()
            os.fsync(written.fileno())
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return manifest


@asynccontextmanager
async def one_moment(database_url: str) -> AsyncIterator[Connection]:
    """A connection of its own whose queries all see the same moment, for as long as it takes."""
    connection = await asyncpg.connect(database_url, timeout=SECONDS_TO_CONNECT)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    finally:
        connection.terminate()


async def _tables(connection: Connection, archive: WrittenArchive) -> Manifest:
    applied = await applied_migrations(connection)
    if not applied:
        raise StoreError("the database is no store of Ratchet: there is nothing to back up")
    tables = []
    for table in await copied_tables(connection):
        with archive.member(TABLES + table.name) as member:
            rows = await copy_out(connection, table, member.write)
        tables.append(TableInBackup(name=table.name, columns=table.columns, rows=rows, sha256=member.sha256))
    open_runs = await connection.fetch(
        "SELECT run_id FROM runs WHERE status IN ('initialized', 'running', 'paused') ORDER BY run_id"
    )
    return Manifest(
        ratchet=_version(),
        made_at=datetime.now(UTC),
        migrations=tuple(MigrationInBackup(**asdict(one)) for one in applied),
        tables=tuple(tables),
        sequences=await sequences(connection),
        open_runs=tuple(row["run_id"] for row in open_runs),
    )


async def _prompts(overrides: str, archive: WrittenArchive) -> PromptsInBackup:
    """Every prompt with its tags and versions, as files, whatever kind of store it is in."""
    files = {}
    with tempfile.TemporaryDirectory(prefix="ratchet-backup-") as name:
        folder = Path(name)
        async with await open_store(overrides) as source, await open_store(f"file:{folder}") as copy:
            await migrate(source, copy)
        for path in _files_in(folder):
            place = path.relative_to(folder).as_posix()
            with archive.member(PROMPTS + place) as member:
                await member.write(path.read_bytes())
            files[place] = member.sha256
    return PromptsInBackup(store=_without_credentials(overrides), files=files)


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _without_credentials(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "from source"
