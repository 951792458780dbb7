"""The dataset of a run, in the store: found there, or brought there."""

from __future__ import annotations

from collections.abc import Sequence

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.file_folders import Refusal
from activities.datasets.given_splits import GivenSplits, divide_as_given
from activities.datasets.ingestion import Ingested, ingest
from activities.datasets.sources import InlineItems, Source, source_of, worker_file
from activities.settings import DatasetSettings
from store.connection import Database
from store.read.access.teams import DEFAULT_TEAM
from store.read.dataset_items import DatasetItemReader
from store.write.datasets import Datasets
from workflows.model.spec.dataset import Dataset, Splits
from workflows.model.spec.request import OptimizationRequest
from workflows.rules.scoring.clusters import Clusters, clusters_of, group_of_tags, is_of_tags, known_group
from workflows.rules.spec.sample_needs import SampleNeeds


async def dataset_of(
    database: Database,
    spec: OptimizationRequest,
    settings: DatasetSettings,
    team: str = DEFAULT_TEAM,
    refuse_object: Refusal | None = None,
) -> Ingested:
    """What a spec names by id or name, of what its team has, or what its items or path hold, ingested by this worker."""
    given = spec.dataset
    if given.items is not None:
        source: Source = InlineItems(given.items, folder=settings.data_dir)
        return await ingest(database, source, spec.dataset_name, largest_mb=settings.largest_dataset_mb)
    if given.files:
        source = source_of(given, lambda path: worker_file(path, settings.data_dir), settings, refuse_object=refuse_object)
        try:
            return await ingest(database, source, given.name, largest_mb=settings.largest_dataset_mb)
        except DatasetError as error:
            raise DatasetError(error.unquoted) from None
    datasets = Datasets(database)
    dataset_id = given.id or await datasets.named(spec.dataset_name, team)
    count = None if dataset_id is None else await datasets.size(dataset_id)
    if dataset_id is None or count is None:
        where = f"dataset.id: {given.id}" if given.id is not None else f"dataset.name: {given.name!r}"
        raise DatasetError(f"{where} is not in the store; ingest it first with `ratchet datasets add FILE`")
    return Ingested(dataset_id, count)


async def lacking_samples(items: DatasetItemReader, dataset_id: str, spec: OptimizationRequest) -> list[str]:
    """The first sample that the target cannot be asked about, and the first one that no scorer could score. A run that takes
    over the answers of another has been through this."""
    needs = SampleNeeds(spec)
    if not needs.has_any or spec.retry_of is not None or spec.optimizer.answers_of is not None:
        return []
    lacking = unusable = None
    async for page in items.pages(dataset_id):
        for sample in page:
            where = f"{spec.dataset.given_at}: sample {sample.item_id!r}"
            if lacking is None and (problem := needs.lacking(sample.input)) is not None:
                lacking = f"{where}: {problem}"
            if unusable is None and (problem := needs.unusable(sample.expected)) is not None:
                unusable = f"{where}: expected: {problem}"
        if lacking is not None and unusable is not None:
            break
    return [problem for problem in (lacking, unusable) if problem is not None]


async def strata_of(datasets: Datasets, dataset_id: str, splits: Splits | None) -> list[str] | None:
    """For every sample the value that its splits are stratified by; None when they are not."""
    if splits is None or splits.stratify_by is None:
        return None
    values = await datasets.strata(dataset_id, splits.stratify_by)
    refuse_nothing_to_stratify_by(splits.stratify_by, any(value not in (None, "[]") for value in values))
    return [value or "" for value in values]


def refuse_nothing_to_stratify_by(field: str, found: bool) -> None:
    """A field that no sample has is a misspelt one."""
    if not found:
        raise DatasetError(f"dataset.splits.stratify_by: no sample has {field!r}; correct the field, or leave stratify_by out")


async def clusters_in(datasets: Datasets, dataset_id: str, given: Dataset) -> Clusters:
    """Which samples count as one: copies of a content, and groups where the spec names some."""
    groups = None if given.grouped_by is None else await _groups(datasets, dataset_id, given.grouped_by)
    if groups is not None:
        refuse_nothing_to_group_by(given, any(group is not None for group in groups))
    return clusters_of(await datasets.contents(dataset_id), groups)


async def _groups(datasets: Datasets, dataset_id: str, field: str) -> list[str | None]:
    if is_of_tags(field):
        return [known_group(group_of_tags(tags, field)) for tags in await datasets.tags(dataset_id)]
    return [known_group(value) for value in await datasets.strata(dataset_id, field)]


async def given_splits_in(
    datasets: Datasets, dataset_id: str, spec: OptimizationRequest, item_hashes: Sequence[str], clusters: Clusters
) -> GivenSplits | None:
    """The splits that the samples name; None where they name none."""
    given = await datasets.given_splits(dataset_id)
    return divide_as_given(spec.dataset, item_hashes, given, spec.seed, clusters) if given else None


def refuse_nothing_to_group_by(given: Dataset, found: bool) -> None:
    """A field that no sample has is a misspelt one."""
    if found:
        return
    field, at = given.grouped_by or "", given.grouped_at
    name = field.partition(".")[2]
    tags = f"a tag such as {name + ':…'!r}, as {field!r} needs it" if is_of_tags(field) and name else repr(field)
    raise DatasetError(f"{at}: no sample has {tags}; correct the field, or leave group_by out")
