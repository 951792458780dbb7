"""Files that samples name, read by the hash of their content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ratchet._files import FileReference
from store.connection import Database
from store.encrypted_contents import contents_of, size_of_file


class StoredFile(NamedTuple):
    """A file's content, and what it is."""

    media_type: str
    content: bytes


class FileReader:
    """Files by their hashes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, digest: str) -> StoredFile | None:
        """One file; None when it is not in the store."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow("SELECT media_type, content FROM files WHERE digest = $1", digest)
            plain = contents_of(connection).plain_file
            return None if row is None else StoredFile(row["media_type"], plain(row["content"]))

    async def unknown(self, references: Iterable[FileReference]) -> FileReference | None:
        """The first of these that is not in the store, or is there as something else."""
        given = list(references)
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT digest, media_type, octet_length(content) AS size, substring(content FOR 100) AS head FROM files"
                " WHERE digest = ANY($1)",
                [reference.digest for reference in given],
            )
        known = {FileReference(row["digest"], row["media_type"], size_of_file(row["size"], row["head"])) for row in rows}
        return next((reference for reference in given if reference not in known), None)
