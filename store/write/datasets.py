"""Datasets in the store: immutable, addressed by their content."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

import asyncpg

from store.connection import Connection, Database
from store.encoding import json_at, storable_text
from store.encrypted_contents import contents_of
from store.schema import StoreError
from store.write.kept_files import FileRow, delete_unnamed_files, put_file
from workflows.model.spec.dataset import SplitName

_TAGS = """array_to_json(ARRAY(SELECT DISTINCT unnest(tags) COLLATE "C" AS tag ORDER BY tag))::text"""
_JSON_COLUMNS = {"input": "input", "expected": "expected"}


class SampleRow(NamedTuple):
    """One sample as it is stored."""

    position: int
    item_hash: str
    item_id: str
    input: str
    """Canonical JSON; so is `expected`."""
    expected: str
    weight: float
    tags: list[str]
    splits: Sequence[str] = ()
    """Those it was given in, most often one; empty where the dataset says nothing of splits."""


class Datasets:
    """Datasets by the hash of their content, and by their names."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store(
        self,
        dataset_id: str,
        name: str,
        count: int,
        batches: Callable[[], Awaitable[Sequence[SampleRow]]],
        files: AsyncIterable[FileRow] | None = None,
    ) -> None:
        """Store a dataset, batch by batch until one is empty, unless it is there; and as the newest version of its name."""
        async with self._database.transaction() as connection:
            if await _claim(connection, dataset_id, name, count):
                while batch := await batches():
                    await _add_samples(connection, dataset_id, batch)
                if files is not None:
                    async for file in files:
                        await _add_file(connection, dataset_id, file)
            await _name_version(connection, name, dataset_id)

    async def size(self, dataset_id: str) -> int | None:
        """How many samples a dataset has; None when it is not in the store."""
        async with self._database.connection() as connection:
            size: int | None = await connection.fetchval("SELECT count FROM datasets WHERE dataset_id = $1", dataset_id)
            return size

    async def named(self, name: str, team: str | None = None) -> str | None:
        """The dataset that a name stands for, in its newest version or in the one behind an @; None when there is none. With a
        team, only what it has."""
        async with self._database.connection() as connection:
            return await named_dataset(connection, name, team)

    async def version_of(self, name: str, dataset_id: str) -> int:
        """The newest version of a name that is a dataset; 0 when none is."""
        async with self._database.connection() as connection:
            version: int | None = await connection.fetchval(
                "SELECT max(version) FROM dataset_versions WHERE name = $1 AND dataset_id = $2", storable_text(name), dataset_id
            )
            return version or 0

    async def item_hashes(self, dataset_id: str) -> list[str]:
        """The samples of a dataset, in order."""
        async with self._database.connection() as connection:
            rows = await connection.fetch("SELECT item_hash FROM samples WHERE dataset_id = $1 ORDER BY position", dataset_id)
            return [row["item_hash"] for row in rows]

    async def given_splits(self, dataset_id: str) -> list[tuple[str, list[SplitName]]]:
        """The id of every sample and the splits that it was given in, in order; nothing where the dataset names no splits."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT item_id, splits FROM samples WHERE dataset_id = $1 AND splits <> '{}' ORDER BY position", dataset_id
            )
            return [(row["item_id"], row["splits"]) for row in rows]

    async def given_sizes(self, dataset_id: str) -> dict[SplitName, int]:
        """How many samples name each split; nothing where the dataset names no splits."""
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT splits[1] AS split, count(*) AS samples FROM samples"
                " WHERE dataset_id = $1 AND splits <> '{}' GROUP BY 1",
                dataset_id,
            )
            return {row["split"]: row["samples"] for row in rows}

    async def contents(self, dataset_id: str) -> list[bytes]:
        """A hash of what every sample says, in order: of input and expected, whatever its id, weight and tags.

        Both are canonical, so that equal ones are equal texts.
        """
        async with self._database.connection() as connection:
            if contents_of(connection).encrypts:
                rows = await _samples(connection, dataset_id)
                return [sha256(f"{row['input']}\n{row['expected']}".encode()).digest() for row in rows]
            rows = await connection.fetch(
                "SELECT sha256(convert_to(input::text || E'\\n' || expected::text, 'UTF8')) AS content FROM samples"
                " WHERE dataset_id = $1 ORDER BY position",
                dataset_id,
            )
            return [row["content"] for row in rows]

    async def tags(self, dataset_id: str) -> list[list[str]]:
        """The tags of every sample, in order."""
        async with self._database.connection() as connection:
            rows = await connection.fetch("SELECT tags FROM samples WHERE dataset_id = $1 ORDER BY position", dataset_id)
            return [row["tags"] for row in rows]

    async def names_among(self, dataset_id: str, ids: Sequence[str], tags: Sequence[str]) -> tuple[set[str], set[str]]:
        """Which of these ids and tags samples of a dataset have."""
        async with self._database.connection() as connection:
            found_ids = await connection.fetch(
                "SELECT item_id FROM samples WHERE dataset_id = $1 AND item_id = ANY($2)", dataset_id, list(ids)
            )
            found_tags = await connection.fetch(
                "SELECT tag FROM unnest($2::text[]) AS tag"
                " WHERE EXISTS (SELECT FROM samples WHERE dataset_id = $1 AND tags @> ARRAY[tag])",
                dataset_id,
                list(tags),
            )
            return {row["item_id"] for row in found_ids}, {row["tag"] for row in found_tags}

    async def strata(self, dataset_id: str, field: str) -> list[str | None]:
        """The value of a field of every sample, in order, as JSON text; None where it has none. Of `tags`, all of them."""
        async with self._database.connection() as connection:
            part, *path = field.split(".")
            if part in _JSON_COLUMNS and contents_of(connection).encrypts:
                return [json_at(row[part], path) for row in await _samples(connection, dataset_id)]
            value = f"({_JSON_COLUMNS[part]} #> $2::text[])::text" if part in _JSON_COLUMNS else _TAGS
            rows = await connection.fetch(
                f"SELECT {value} AS value FROM samples WHERE dataset_id = $1 AND $2::text[] IS NOT NULL ORDER BY position",  # noqa: S608
                dataset_id,
                path,
            )
            return [row["value"] for row in rows]

    async def delete(self, dataset_id: str) -> bool:
        """Delete a dataset that no run uses; whether there was one."""
        async with self._database.transaction() as connection:
            run = await connection.fetchval("SELECT run_id FROM runs WHERE dataset_id = $1 LIMIT 1", dataset_id)
            if run is not None:
                raise StoreError(f"dataset {dataset_id[:12]} is used by run {run!r}: delete the run first")
            deleted = await connection.fetchval("DELETE FROM datasets WHERE dataset_id = $1 RETURNING true", dataset_id)
            await delete_unnamed_files(connection)
            return bool(deleted)


async def _samples(connection: Connection, dataset_id: str) -> list[asyncpg.Record]:
    """What every sample says, in order, for what queries cannot look into."""
    rows: list[asyncpg.Record] = await connection.fetch(
        "SELECT input, expected FROM samples WHERE dataset_id = $1 ORDER BY position", dataset_id
    )
    return rows


async def _claim(connection: Connection, dataset_id: str, name: str, count: int) -> bool:
    """Claim a dataset until the transaction ends; False when it is there already."""
    claimed = await connection.fetchval(
        "INSERT INTO datasets (dataset_id, name, count) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING true",
        dataset_id,
        storable_text(name),
        count,
    )
    return bool(claimed)


async def _add_samples(connection: Connection, dataset_id: str, rows: Sequence[SampleRow]) -> None:
    """Add a batch of samples to a dataset that this transaction has claimed."""
    contents = contents_of(connection)
    encrypted = [
        row._replace(input=contents.json_text(row.input), expected=contents.json_text(row.expected))
        if contents.encrypts
        else row
        for row in rows
    ]
    await connection.copy_records_to_table(
        "samples", records=[(dataset_id, *row) for row in encrypted], columns=["dataset_id", *SampleRow._fields]
    )


async def _add_file(connection: Connection, dataset_id: str, file: FileRow) -> None:
    await put_file(connection, file)
    await connection.execute("INSERT INTO dataset_files (dataset_id, digest) VALUES ($1, $2)", dataset_id, file.digest)


async def _name_version(connection: Connection, name: str, dataset_id: str) -> int:
    """The version under which a name stands for a dataset: its newest, or a new one when that has other content."""
    called = storable_text(name)
    await connection.execute("INSERT INTO dataset_names (name, newest) VALUES ($1, 0) ON CONFLICT DO NOTHING", called)
    newest: int = await connection.fetchval("SELECT newest FROM dataset_names WHERE name = $1 FOR UPDATE", called)
    present = await connection.fetchrow(
        "SELECT version, dataset_id FROM dataset_versions WHERE name = $1 ORDER BY version DESC LIMIT 1", called
    )
    if present is not None and present["dataset_id"] == dataset_id:
        return int(present["version"])
    await connection.execute("UPDATE dataset_names SET newest = $2 WHERE name = $1", called, newest + 1)
    await connection.execute(
        "INSERT INTO dataset_versions (name, version, dataset_id) VALUES ($1, $2, $3)", called, newest + 1, dataset_id
    )
    return newest + 1


async def named_dataset(connection: Connection, name: str, team: str | None = None) -> str | None:
    """The dataset that a name stands for, in its newest version or in the one behind an @; None when there is none."""
    by_name = (
        "SELECT dataset_id FROM dataset_versions WHERE name = $1 AND ($2::int IS NULL OR version = $2)"
        " AND ($3::text IS NULL OR team_has_dataset($3, dataset_id)) ORDER BY version DESC LIMIT 1"
    )
    found: str | None = await connection.fetchval(by_name, storable_text(name), None, team)
    called, _, version = name.rpartition("@")
    if found is None and called and version.isdecimal() and len(version) < 9:
        found = await connection.fetchval(by_name, storable_text(called), int(version), team)
    return found
