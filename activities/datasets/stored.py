"""The dataset of a run, in the store: found there, or brought there."""

from __future__ import annotations

from pathlib import Path

from activities.datasets.ingesting import Ingested, ingest
from activities.datasets.problems import DatasetError
from activities.datasets.sources import source_of, worker_file
from activities.store import samples
from activities.store.connection import Connection, Database
from workflows.model.dataset import Splits
from workflows.model.request import OptimizationRequest


async def dataset_of(database: Database, spec: OptimizationRequest, data_directory: Path | None) -> Ingested:
    """What a spec names by id or name, or what its items or path hold, ingested by this worker."""
    given = spec.dataset
    if given.items is not None:
        return await ingest(database, given.items, spec.dataset_name)
    if given.path is not None:
        source = source_of(given, lambda path: worker_file(path, data_directory))
        try:
            return await ingest(database, source, given.name)
        except DatasetError as error:
            raise DatasetError(error.unquoted) from None
    async with database.connection() as connection:
        dataset_id = given.id or await samples.named_dataset(connection, spec.dataset_name)
        count = None if dataset_id is None else await samples.dataset_size(connection, dataset_id)
    if dataset_id is None or count is None:
        where = f"dataset.id: {given.id}" if given.id is not None else f"dataset.name: {given.name!r}"
        raise DatasetError(f"{where} is not in the store; ingest it first with `ratchet datasets add FILE`")
    return Ingested(dataset_id, count)


async def strata_of(connection: Connection, dataset_id: str, splits: Splits | None) -> list[str] | None:
    """For every sample the value that its splits are stratified by; None when they are not."""
    if splits is None or splits.stratify_by is None:
        return None
    values = await samples.strata(connection, dataset_id, splits.stratify_by)
    refuse_nothing_to_stratify_by(splits.stratify_by, any(value not in (None, "[]") for value in values))
    return [value or "" for value in values]


def refuse_nothing_to_stratify_by(field: str, found: bool) -> None:
    """A field that no sample has is a misspelt one."""
    if not found:
        raise DatasetError(f"dataset.splits.stratify_by: no sample has {field!r}; correct the field, or leave stratify_by out")
