"""Datasets in the store: immutable, addressed by their content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from activities.store.connection import Connection
from activities.store.encoding import storable_text
from activities.store.migrating import StoreError


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


async def dataset_size(connection: Connection, dataset_id: str) -> int | None:
    """How many samples a dataset has; None when it is not in the store."""
    size: int | None = await connection.fetchval("SELECT count FROM datasets WHERE dataset_id = $1", dataset_id)
    return size


async def new_dataset(connection: Connection, dataset_id: str, name: str, count: int) -> bool:
    """Claim a dataset until the transaction ends; False when it is there already."""
    claimed = await connection.fetchval(
        "INSERT INTO datasets (dataset_id, name, count) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING true",
        dataset_id,
        storable_text(name),
        count,
    )
    return bool(claimed)


async def add_samples(connection: Connection, dataset_id: str, rows: Sequence[SampleRow]) -> None:
    """Add a batch of samples to a dataset that this transaction has claimed."""
    await connection.copy_records_to_table(
        "samples", records=[(dataset_id, *row) for row in rows], columns=["dataset_id", *SampleRow._fields]
    )


async def item_hashes(connection: Connection, dataset_id: str) -> list[str]:
    """The samples of a dataset, in order."""
    rows = await connection.fetch("SELECT item_hash FROM samples WHERE dataset_id = $1 ORDER BY position", dataset_id)
    return [row["item_hash"] for row in rows]


async def delete_dataset(connection: Connection, dataset_id: str) -> bool:
    """Delete a dataset that no run uses; whether there was one."""
    run = await connection.fetchval("SELECT run_id FROM runs WHERE dataset_id = $1 LIMIT 1", dataset_id)
    if run is not None:
        raise StoreError(f"dataset {dataset_id[:12]} is used by run {run!r}: delete the run first")
    return bool(await connection.fetchval("DELETE FROM datasets WHERE dataset_id = $1 RETURNING true", dataset_id))
