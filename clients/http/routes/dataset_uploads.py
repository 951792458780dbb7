"""Datasets that people send: stored by their content, and as the newest version of a name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from activities.datasets import DatasetError, InlineItems, ingest
from clients.http.access.callers import CalledBy
from clients.http.access.roles import DATASETS
from clients.http.backend import NO_CONTROLS, Backend, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.settings import dataset_settings
from ratchet._frozen import Payload
from store.write.access.teams import Teams
from store.write.datasets import Datasets
from workflows.model.spec.dataset import Item


class SentDataset(Payload):
    """Samples under a name."""

    name: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_CONTROLS)]
    items: Annotated[list[Item], Field(min_length=1)]


class StoredDataset(Payload):
    """A dataset that is in the store."""

    dataset_id: str
    name: str
    version: int
    """Of its name: sent again, the same samples are the same version."""
    count: int
    duplicates_dropped: int
    """Samples that were there twice, letter by letter."""


class DatasetRoute(JsonRoute):
    """A path that takes a whole dataset."""

    whole = SentDataset


router = APIRouter(prefix=DATASETS, tags=["datasets"], route_class=DatasetRoute)


@router.post("", operation_id="storeDataset", status_code=201, responses=responses(409, 413))
async def store_dataset(sent: SentDataset, backend: Served, caller: CalledBy) -> StoredDataset:
    """Store samples as the newest version of a name; a spec names them by `dataset: {name: NAME}`, or `NAME@VERSION`."""
    await refuse_taken(backend, sent.name, caller.team)
    source = InlineItems(sent.items, name=sent.name)
    try:
        found = await ingest(backend.database, source, sent.name, largest_mb=dataset_settings().largest_dataset_mb)
    except DatasetError as error:
        raise Refused(422, str(error), "items") from None
    await Teams(backend.database).claim_dataset(found.dataset_id, caller.team)
    version = await Datasets(backend.database).version_of(sent.name, found.dataset_id)
    return StoredDataset(
        dataset_id=found.dataset_id,
        name=sent.name,
        version=version,
        count=found.count,
        duplicates_dropped=found.duplicates_dropped,
    )


async def refuse_taken(backend: Backend, name: str, team: str) -> None:
    """Pass where a team may store a dataset under a name."""
    if "@" in name:
        raise Refused(422, "name: has an @, which is put before the number of a version; leave it out", "name")
    newest = await Datasets(backend.database).named(name)
    if newest is not None and not await backend.reader.teams.has_dataset(team, newest):
        raise Refused(409, f"name: {name!r} is taken; give the dataset another one", "name")
