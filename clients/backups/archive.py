"""The file of a backup: a ZIP with a member for each table, the prompts that are kept elsewhere, and a manifest, written last.

A file without its manifest is no backup: it was cut off. Members are checked by the hashes in the manifest as they are read.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Final, Literal

from pydantic import ValidationError

from ratchet._frozen import Payload
from store.table_copies import CopiedTable

MANIFEST: Final = "manifest.json"
TABLES: Final = "tables/"
PROMPTS: Final = "prompts/"
COMPRESSION: Final = 1
"""Texts shrink to a third at once; more effort gains little."""

READ_AT_ONCE: Final = 1 << 20
LARGEST_MANIFEST: Final = 64 << 20


class BadBackup(Exception):
    """A file that nothing can be restored from; the message says why."""


class MigrationInBackup(Payload):
    """A migration that the database had."""

    version: int
    name: str
    applied_at: datetime


class TableInBackup(Payload):
    """A table, with what proves that it is as it was written."""

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256: str


class PromptsInBackup(Payload):
    """Prompts that were not in the database."""

    store: str
    """Where they were, without credentials."""
    files: dict[str, str]
    """The sha256 of each file, by its path."""


class Manifest(Payload):
    """What a backup holds."""

    format: Literal["ratchet-backup-1"] = "ratchet-backup-1"
    ratchet: str
    made_at: datetime
    migrations: tuple[MigrationInBackup, ...]
    tables: tuple[TableInBackup, ...]
    """Each after those that it refers to."""
    sequences: dict[str, int]
    prompts: PromptsInBackup | None = None
    """None where they are in the tables."""
    open_runs: tuple[str, ...] = ()
    """Runs that were not over: of these the history in Temporal is not here."""

    @property
    def schema_version(self) -> int:
        return self.migrations[-1].version if self.migrations else 0

    def rows(self, table: str) -> int:
        """How many rows a table has here."""
        return next((one.rows for one in self.tables if one.name == table), 0)


class HashedMember:
    """A member of the file while it is written."""

    def __init__(self, member: IO[bytes]) -> None:
        self._member = member
        self._hash = hashlib.sha256()

    async def write(self, content: bytes) -> None:
        """Take more of it."""
        self._hash.update(content)
        self._member.write(content)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class WrittenArchive:
    """A backup that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=COMPRESSION)

    @contextmanager
    def member(self, name: str) -> Iterator[HashedMember]:
        """Write one member, of any size."""
        with self._zip.open(name, "w", force_zip64=True) as opened:
            yield HashedMember(opened)

    def close(self, manifest: Manifest | None = None) -> None:
        """Write the manifest, with which the file is a backup; without one it is none."""
        if manifest is not None:
            self._zip.writestr(MANIFEST, manifest.model_dump_json(indent=1))
        self._zip.close()


@contextmanager
def written_archive(file: IO[bytes]) -> Iterator[WrittenArchive]:
    """A backup that is being written into an open file; one that is cut off is left without a manifest."""
    archive = WrittenArchive(file)
    try:
        yield archive
    finally:
        archive.close()


class ReadArchive:
    """A backup that is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
            info = self._zip.getinfo(MANIFEST)
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            raise BadBackup(f"{path} is no backup, or was cut off: {error}") from None
        if info.file_size > LARGEST_MANIFEST:
            raise BadBackup(f"{path}: its {MANIFEST} is too large")
        try:
            self.manifest = Manifest.model_validate_json(self._zip.read(MANIFEST))
        except (ValidationError, ValueError, zipfile.BadZipFile) as error:
            told = str(error).splitlines()[0]
            raise BadBackup(f"{path}: its {MANIFEST} is none of this version of Ratchet: {told}") from None
        if not self.manifest.migrations:
            raise BadBackup(f"{path}: its {MANIFEST} names no schema")

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    async def rows(self, table: TableInBackup) -> AsyncIterator[bytes]:
        """The rows of a table; raises BadBackup at their end when they are not as they were written."""
        for part in self._parts(TABLES + table.name, table.sha256):
            yield part

    def check_prompts(self) -> None:
        """Raise BadBackup unless the prompts are as they were written."""
        for name, sha256 in self._prompts().items():
            place = PurePosixPath(name)
            if place.is_absolute() or ".." in place.parts:
                raise BadBackup(f"{self.path}: {name!r} would lie outside of its folder")
            for _ in self._parts(PROMPTS + name, sha256):
                pass

    def write_prompts(self, folder: Path) -> None:
        """Write the prompts, which were checked, into a folder."""
        for name, sha256 in self._prompts().items():
            target = folder.joinpath(*PurePosixPath(name).parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                for part in self._parts(PROMPTS + name, sha256):
                    file.write(part)

    def _prompts(self) -> dict[str, str]:
        return {} if self.manifest.prompts is None else self.manifest.prompts.files

    def _parts(self, name: str, sha256: str) -> Iterator[bytes]:
        found = hashlib.sha256()
        try:
            with self._zip.open(name) as member:
                while part := member.read(READ_AT_ONCE):
                    found.update(part)
                    yield part
        except (KeyError, OSError, zipfile.BadZipFile, EOFError) as error:
            raise BadBackup(f"{self.path}: {name} cannot be read: {error}") from None
        if found.hexdigest() != sha256:
            raise BadBackup(f"{self.path}: {name} is not as it was written")


def copied(table: TableInBackup) -> CopiedTable:
    """The table as it is copied in."""
    return CopiedTable(table.name, table.columns)
