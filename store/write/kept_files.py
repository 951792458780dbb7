"""Files in the store, under the hash of their content: kept as long as a dataset or a run names them."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import NamedTuple

from store.connection import Connection, Database
from store.encoding import storable_text
from store.encrypted_contents import contents_of

_DELETE_NEVER_BEGUN = """
DELETE FROM run_files f
WHERE created_at < now() - interval '30 days' AND NOT EXISTS (SELECT FROM runs r WHERE r.run_id = f.run_id)"""
_DELETE_UNNAMED_FILES = """
DELETE FROM files WHERE digest IN (
    SELECT digest FROM files f
    WHERE NOT EXISTS (SELECT FROM dataset_files d WHERE d.digest = f.digest)
        AND NOT EXISTS (SELECT FROM run_files r WHERE r.digest = f.digest)
    FOR UPDATE SKIP LOCKED
)"""
"""A file that somebody is about to name is locked by him, and stays."""


class FileRow(NamedTuple):
    """A file that is named; without content where it must be in the store already."""

    digest: str
    media_type: str
    content: bytes | None


class RunFiles:
    """The files that factors of runs name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, run_id: str, files: AsyncIterable[FileRow]) -> None:
        """Keep files for a run, before it is there. Doing it twice changes nothing."""
        async with self._database.transaction() as connection:
            async for file in files:
                await put_file(connection, file)
                await connection.execute(
                    "INSERT INTO run_files (run_id, digest) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                    storable_text(run_id),
                    file.digest,
                )


async def put_file(connection: Connection, file: FileRow) -> None:
    """Store a file, unless it is there or brings no content; whoever names it then does so in the same transaction."""
    if file.content is not None:
        await connection.execute(
            "INSERT INTO files (digest, media_type, content) VALUES ($1, $2, $3)"
            " ON CONFLICT (digest) DO UPDATE SET media_type = excluded.media_type",
            file.digest,
            file.media_type,
            contents_of(connection).file(file.content),
        )


async def delete_files_of_run(connection: Connection, run_id: str) -> None:
    """Delete what only a run names."""
    gone = "WITH gone AS (DELETE FROM run_files WHERE run_id = $1 RETURNING 1) SELECT count(*) FROM gone"
    if await connection.fetchval(gone, run_id):
        await delete_unnamed_files(connection)


async def delete_unnamed_files(connection: Connection) -> None:
    """Delete files that neither a dataset nor a run names any more."""
    await connection.execute(_DELETE_NEVER_BEGUN)
    await connection.execute(_DELETE_UNNAMED_FILES)
