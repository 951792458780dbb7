"""What clients read of datasets: which there are, under which names, and what is in them."""

# ruff: noqa: S608 (only constants of this module are put into statements; every value is a parameter)

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

from ratchet._frozen import Payload
from store.connection import Connection, Database
from store.encoding import decoded, from_json
from store.encrypted_contents import contents_of
from store.write.datasets import named_dataset

MOST_VALUES = 20
SHORTEST_PREFIX = 6
_DATASET = "SELECT d.*, (SELECT count(*) FROM runs r WHERE r.dataset_id = d.dataset_id) AS runs FROM datasets d"


class DatasetVersion(Payload):
    """A name that a dataset was added under."""

    name: str
    version: int
    created_at: datetime


class ValueCount(Payload):
    """A value and how many samples have it."""

    value: Any
    samples: int


class DatasetRow(Payload):
    """A dataset in a list."""

    dataset_id: str
    name: str
    count: int
    created_at: datetime
    runs: int
    """How many runs use it."""
    versions: tuple[DatasetVersion, ...] = ()


class DatasetDetail(DatasetRow):
    """A dataset with what its samples have in common; of every list the most frequent."""

    used_by: tuple[str, ...]
    total_weight: float
    input_fields: tuple[ValueCount, ...]
    expected: tuple[ValueCount, ...]
    tags: tuple[ValueCount, ...]
    splits: tuple[ValueCount, ...]
    """Those that samples name; none where they name none."""


class SampleView(Payload):
    """A sample of a dataset."""

    position: int
    item_id: str
    item_hash: str
    input: Any
    expected: Any
    weight: float
    tags: tuple[str, ...]


class DatasetReader:
    """Datasets, and their samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[DatasetRow]:
        """Every dataset with its names, the newest first."""
        async with self._database.snapshot() as connection:
            versions = defaultdict(list)
            for row in await connection.fetch("SELECT * FROM dataset_versions ORDER BY name, version"):
                versions[row["dataset_id"]].append(_version(row))
            found = await connection.fetch(f"{_DATASET} ORDER BY d.created_at DESC, d.dataset_id")
            return [DatasetRow(**row, versions=tuple(versions[row["dataset_id"]])) for row in found]

    async def called(self, reference: str) -> list[str]:
        """The ids that a reference may mean: an id or the beginning of one, or a name, with or without a version."""
        async with self._database.connection() as connection:
            named = await named_dataset(connection, reference)
            if named is not None:
                return [named]
            if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}", reference):
                return []
            found = await connection.fetch(
                "SELECT dataset_id FROM datasets WHERE starts_with(dataset_id, $1) ORDER BY dataset_id LIMIT 10", reference
            )
            return [row["dataset_id"] for row in found]

    async def load(self, dataset_id: str) -> DatasetDetail | None:
        """One dataset with what its samples have in common."""
        async with self._database.snapshot() as connection:
            row = await connection.fetchrow(f"{_DATASET} WHERE d.dataset_id = $1", dataset_id)
            if row is None:
                return None
            versions = await connection.fetch(
                "SELECT * FROM dataset_versions WHERE dataset_id = $1 ORDER BY name, version", dataset_id
            )
            used_by = await connection.fetch(
                "SELECT run_id FROM runs WHERE dataset_id = $1 ORDER BY started_at DESC, run_id LIMIT $2",
                dataset_id,
                MOST_VALUES,
            )
            expected, input_fields = await _counted_contents(connection, dataset_id)
            return DatasetDetail(
                **row,
                versions=tuple(_version(version) for version in versions),
                used_by=tuple(run["run_id"] for run in used_by),
                total_weight=await connection.fetchval("SELECT sum(weight) FROM samples WHERE dataset_id = $1", dataset_id),
                input_fields=input_fields,
                expected=tuple(value.model_copy(update={"value": from_json(str(value.value))}) for value in expected),
                tags=await _counted(connection, dataset_id, "SELECT unnest(tags) AS value FROM samples WHERE dataset_id = $1"),
                splits=await _counted(
                    connection, dataset_id, "SELECT unnest(splits) AS value FROM samples WHERE dataset_id = $1"
                ),
            )

    async def samples(self, dataset_id: str, *, offset: int = 0, limit: int = 100) -> list[SampleView]:
        """Samples of a dataset, in order."""
        async with self._database.connection() as connection:
            found = await connection.fetch(
                "SELECT position, item_id, item_hash, input, expected, weight, tags FROM samples"
                " WHERE dataset_id = $1 AND position >= $2 ORDER BY position LIMIT $3",
                dataset_id,
                offset,
                limit,
            )
        return [SampleView(**decoded(row, "input", "expected")) for row in found]


async def _counted_contents(connection: Connection, dataset_id: str) -> tuple[tuple[ValueCount, ...], tuple[ValueCount, ...]]:
    """The most frequent expected values, as JSON text, and fields of inputs."""
    if not contents_of(connection).encrypts:
        expected = await _counted(connection, dataset_id, "SELECT expected::text AS value FROM samples WHERE dataset_id = $1")
        fields = await _counted(
            connection,
            dataset_id,
            "SELECT json_object_keys(CASE json_typeof(input) WHEN 'object' THEN input ELSE '{}' END) AS value"
            " FROM samples WHERE dataset_id = $1",
        )
        return expected, fields
    values: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for sample in await connection.fetch("SELECT input, expected FROM samples WHERE dataset_id = $1", dataset_id):
        given = from_json(sample["input"])
        names.update(list(given) if isinstance(given, dict) else ())
        values[sample["expected"]] += 1
    return _most_frequent(values), _most_frequent(names)


def _most_frequent(counted: Counter[str]) -> tuple[ValueCount, ...]:
    in_order = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:MOST_VALUES]
    return tuple(ValueCount(value=value, samples=samples) for value, samples in in_order)


async def _counted(connection: Connection, dataset_id: str, values: str) -> tuple[ValueCount, ...]:
    """The most frequent values."""
    found = await connection.fetch(
        f"SELECT value, count(*) AS samples FROM ({values}) AS given GROUP BY value ORDER BY samples DESC, value LIMIT $2",
        dataset_id,
        MOST_VALUES,
    )
    return tuple(ValueCount(**row) for row in found)


def _version(row: object) -> DatasetVersion:
    return DatasetVersion.model_validate(dict(row))  # type: ignore[call-overload]
