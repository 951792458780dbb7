"""Datasets over HTTP: which there are, what is in them, what their versions differ in, and which runs used them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import Response, StreamingResponse

from clients.http.access.callers import CalledBy
from clients.http.backend import NO_CONTROLS, Backend, Offset, Served
from clients.http.encoded_answers import encoded
from clients.http.errors import Refused, responses
from clients.http.missing_names import no_dataset
from store.read.dataset_items import (
    DatasetCopies,
    DatasetDifference,
    DatasetPage,
    DatasetSample,
    DatasetUse,
    SamplePage,
)
from store.read.datasets import DatasetDetail

router = APIRouter(prefix="/v1/private/datasets", tags=["datasets"])

LINES: Final = "application/x-ndjson"

DatasetId = Annotated[
    str, Path(alias="dataset_id", min_length=1, max_length=200, pattern=NO_CONTROLS, description="The dataset's id, whole.")
]


@router.get("", operation_id="listDatasets", responses=responses())
async def list_datasets(
    backend: Served,
    caller: CalledBy,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="Part of a name, or the beginning of the id."),
    ] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
) -> DatasetPage:
    """Datasets, the newest first."""
    return await backend.reader.dataset_items.page(team=caller.sees_only, search=search, offset=offset, limit=limit)


@router.get("/{dataset_id}", operation_id="getDataset", responses=responses(404))
async def get_dataset(dataset_id: DatasetId, backend: Served, caller: CalledBy) -> DatasetDetail:
    """A dataset with what its samples have in common: fields, expected answers, tags, splits."""
    found = await backend.reader.datasets.load(dataset_id)
    if found is None:
        raise Refused(404, no_dataset(dataset_id), "dataset_id")
    if caller.sees_only is None:
        return found
    mine = (await backend.reader.dataset_items.use(dataset_id, caller.sees_only)).runs
    return found.model_copy(update={"used_by": tuple(run.optimization_id for run in mine), "runs": len(mine)})


@router.get("/{dataset_id}/samples", operation_id="listSamples", responses=responses(404), response_model=SamplePage)
async def list_samples(
    dataset_id: DatasetId,
    backend: Served,
    search: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            pattern=NO_CONTROLS,
            description="Part of the id, the input or the expected answer. Where contents are encrypted, of the id alone:"
            " `searched` says where it looked.",
        ),
    ] = None,
    tag: Annotated[
        str | None, Query(min_length=1, max_length=500, pattern=NO_CONTROLS, description="Only samples with this tag.")
    ] = None,
    split: Annotated[
        str | None, Query(min_length=1, max_length=100, pattern=NO_CONTROLS, description="Only samples that name this split.")
    ] = None,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="Samples behind this position.")] = -1,
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,
) -> Response:
    """Samples of a dataset, in order, page by page."""
    await _existing(backend, dataset_id)
    page = await backend.reader.dataset_items.samples(dataset_id, search=search, tag=tag, split=split, after=after, limit=limit)
    return await encoded(lambda: page.model_dump_json(by_alias=True))


@router.get(
    "/{dataset_id}/download",
    operation_id="downloadDataset",
    responses={**responses(404), 200: {"content": {LINES: {"schema": {"type": "string"}}}}},
    response_class=StreamingResponse,
)
async def download_dataset(dataset_id: DatasetId, backend: Served) -> StreamingResponse:
    """All samples of a dataset as JSON lines that can be stored again: `id`, `input`, `expected`, `weight`, `tags`, `split`."""
    found = await backend.reader.datasets.load(dataset_id)
    if found is None:
        raise Refused(404, no_dataset(dataset_id), "dataset_id")
    newest = found.versions[-1] if found.versions else None
    name = dataset_id[:12] if newest is None else f"{newest.name}-{newest.version}"
    named = f'attachment; filename="{re.sub(r"[^A-Za-z0-9._-]+", "-", name)}.jsonl"'
    return StreamingResponse(_lines(backend, dataset_id), media_type=LINES, headers={"Content-Disposition": named})


async def _lines(backend: Backend, dataset_id: str) -> AsyncIterator[bytes]:
    async for page in backend.reader.dataset_items.pages(dataset_id):
        lines = [line for sample in page for line in _sample_lines(sample)]
        yield "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def _sample_lines(sample: DatasetSample) -> list[dict[str, Any]]:
    """A sample as people write it: once for each split that it names."""
    said: dict[str, Any] = {"id": sample.item_id, "input": sample.input}
    if sample.expected is not None:
        said["expected"] = sample.expected
    if sample.weight != 1:
        said["weight"] = sample.weight
    if sample.tags:
        said["tags"] = sample.tags
    return [{**said, "split": split} for split in sample.splits] or [said]


@router.get("/{dataset_id}/use", operation_id="getDatasetUse", responses=responses(404))
async def get_dataset_use(dataset_id: DatasetId, backend: Served, caller: CalledBy) -> DatasetUse:
    """The versions of a dataset's names, and the runs over it with the splits that they drew."""
    await _existing(backend, dataset_id)
    return await backend.reader.dataset_items.use(dataset_id, caller.sees_only)


@router.get("/{dataset_id}/copies", operation_id="listDatasetCopies", responses=responses(404))
async def list_dataset_copies(dataset_id: DatasetId, backend: Served) -> DatasetCopies:
    """Samples that say the same: runs count them as one."""
    await _existing(backend, dataset_id)
    return await backend.reader.dataset_items.copies(dataset_id)


@router.get("/{dataset_id}/differences", operation_id="compareDatasets", responses=responses(404))
async def compare_datasets(
    dataset_id: DatasetId,
    backend: Served,
    against: Annotated[
        str, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="The id of what it is compared with.")
    ],
) -> DatasetDifference:
    """What a dataset has that another has not, what it lacks, and what says something else under the same id."""
    for one in (dataset_id, against):
        await _existing(backend, one)
    return await backend.reader.dataset_items.difference(against, dataset_id)


async def _existing(backend: Backend, dataset_id: str) -> None:
    if not await backend.reader.dataset_items.exists(dataset_id):
        raise Refused(404, no_dataset(dataset_id), "dataset_id")
