"""Bringing a backup back: all of it into an empty database, or nothing, and then what its runs decided is decided again."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from clients.backups.archive import BadBackup, Manifest, ReadArchive, copied
from clients.replay.from_store import replay_store
from clients.runs.lookup import TERMINAL
from ratchet.prompts import migrate, open_store
from store.connection import SECONDS_TO_CONNECT, Database
from store.read.reader import StoreReader
from store.read.replay_records import RecordedOutcomes
from store.table_copies import AppliedMigration, copied_tables, copy_in, go_on_counting, make_schema
from store.write.run_endings import Ended, RunEndings, UnendedRun

WAS_OPEN = (
    "it was open when the backup of {when:%Y-%m-%d %H:%M} was made, and Temporal's history is in no backup: "
    "`ratchet retry {run_id}` goes on with its answers"
)


@dataclass(frozen=True, slots=True)
class ReplayedBackup:
    """What going through restored runs again has found."""

    replayed: int = 0
    finished: int = 0
    """Runs that could be gone through."""
    differing: tuple[str, ...] = ()
    """Runs whose decisions do not follow from what is stored of them."""


async def restore_tables(archive: ReadArchive, database_url: str) -> None:
    """Bring every table back, in one transaction."""
    manifest = archive.manifest
    archive.check_prompts()
    connection = await asyncpg.connect(database_url, timeout=SECONDS_TO_CONNECT)
    try:
        async with connection.transaction():
            await make_schema(connection, [AppliedMigration(**dict(one)) for one in manifest.migrations])
            there = {table.name: table for table in await copied_tables(connection)}
            for table in manifest.tables:
                if not set(table.columns) <= set(there[table.name].columns if table.name in there else ()):
                    raise BadBackup(f"{archive.path}: {table.name} is no table of schema version {manifest.schema_version}")
                rows = await copy_in(connection, copied(table), archive.rows(table))
                if rows != table.rows:
                    raise BadBackup(f"{archive.path}: {table.name} has {rows} rows instead of {table.rows}")
            await go_on_counting(connection, manifest.sequences)
        await connection.execute("ANALYZE")
    finally:
        connection.terminate()


async def restore_prompts(archive: ReadArchive, overrides: str, database_url: str) -> int:
    """Bring prompts back that were kept beside the database; how many prompts came."""
    if archive.manifest.prompts is None:
        return 0
    with tempfile.TemporaryDirectory(prefix="ratchet-restore-") as name:
        archive.write_prompts(Path(name))
        async with (
            await open_store(f"file:{name}") as copy,
            await open_store(overrides, database_url=database_url) as destination,
        ):
            return (await migrate(copy, destination)).prompts


async def end_open_runs(database: Database, manifest: Manifest) -> list[str]:
    """Write down that runs ended which were open: Temporal knows nothing of them. One that it does know goes on all the same,
    as after a reset."""
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT run_id, execution_id, namespace_id, status, 0::float8 AS untouched FROM runs WHERE run_id = ANY($1)",
            list(manifest.open_runs),
        )
    endings = RunEndings(database)
    ended = []
    for row in rows:
        told = WAS_OPEN.format(when=manifest.made_at, run_id=row["run_id"])
        if await endings.write(UnendedRun(**row), Ended("terminated", told)):
            ended.append(row["run_id"])
    return ended


async def replay_restored(database: Database, most: int) -> ReplayedBackup:
    """Go through the newest finished runs again."""
    reader = StoreReader(database)
    finished = await _finished_runs(reader)
    differing = []
    for run_id in finished[:most]:
        report = await reader.runs.report(run_id)
        if report is None or (await replay_store(report, RecordedOutcomes(database)))[0]:
            differing.append(run_id)
    return ReplayedBackup(min(most, len(finished)), len(finished), tuple(differing))


async def _finished_runs(reader: StoreReader) -> Sequence[str]:
    """Those with a result, the newest first."""
    found: list[str] = []
    offset = 0
    while page := await reader.runs.page(offset=offset, limit=1000):
        found += [run.run_id for run in page if run.status in TERMINAL and run.status != "terminated"]
        offset += len(page)
    return found
