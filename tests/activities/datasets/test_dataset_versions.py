"""Datasets by name: the same name with other content is a new version, and whatever is in use stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from activities.datasets import DatasetError, ingest
from activities.datasets.run_dataset import dataset_of
from store.connection import Database
from store.read.reader import StoreReader
from store.write.datasets import Datasets
from tests.support.store_examples import ExampleRun
from workflows.model.spec.dataset import Item
from workflows.model.spec.request import OptimizationRequest


def items(*numbers: int) -> list[Item]:
    return [Item(input=number) for number in numbers]


def spec(example: ExampleRun, **dataset: Any) -> OptimizationRequest:
    return example.spec(dataset=dataset)


async def names(reader: StoreReader) -> dict[str, list[str]]:
    """The names of every dataset, by its size."""
    return {str(row.count): [f"{v.name}@{v.version}" for v in row.versions] for row in await reader.datasets.all()}


async def test_other_content_under_a_name_is_a_new_version_and_equal_content_is_not(
    database: Database, reader: StoreReader
) -> None:
    for given in (items(1), items(1), items(1, 2), items(1, 2), items(1)):
        await ingest(database, given, "tickets")
    await ingest(database, items(1, 2), "others")
    assert await names(reader) == {"1": ["tickets@1", "tickets@3"], "2": ["others@1", "tickets@2"]}


async def test_versions_number_themselves_whoever_comes_at_once(database: Database, reader: StoreReader) -> None:
    await asyncio.gather(*(ingest(database, items(*range(n + 1)), "tickets") for n in range(8)))
    versions = [version.version for row in await reader.datasets.all() for version in row.versions]
    assert sorted(versions) == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_spec_finds_a_stored_dataset_by_name_version_and_id(database: Database, example: ExampleRun) -> None:
    old, new = await ingest(database, items(1), "tickets"), await ingest(database, items(1, 2), "tickets")
    odd = await ingest(database, items(1, 2, 3), "tickets@1")
    for dataset, found in (
        ({"name": "tickets"}, new),
        ({"name": "tickets@2"}, new),
        ({"name": "tickets@1"}, odd),  # a file may be called so; its own name comes first
        ({"id": old.dataset_id}, old),
    ):
        assert await dataset_of(database, spec(example, **dataset), None) == found


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"name": "tickets@3"}, r"dataset\.name: 'tickets@3' is not in the store; ingest it first with `ratchet datasets add"),
        ({"name": "nothing"}, r"dataset\.name: 'nothing' is not in the store"),
        ({"name": "tickets@99999999999999999999"}, "is not in the store"),
        ({"id": "0" * 64}, r"dataset\.id: 0{64} is not in the store"),
    ],
)
async def test_what_is_not_stored_is_said(
    database: Database, example: ExampleRun, dataset: dict[str, str], message: str
) -> None:
    await ingest(database, items(1), "tickets")
    with pytest.raises(DatasetError, match=message):
        await dataset_of(database, spec(example, **dataset), None)


async def test_a_deleted_version_is_gone_and_its_number_never_comes_back(database: Database, reader: StoreReader) -> None:
    await ingest(database, items(1), "tickets")
    gone = await ingest(database, items(1, 2), "tickets")
    assert await Datasets(database).delete(gone.dataset_id)
    await ingest(database, items(1, 2, 3), "tickets")
    assert await names(reader) == {"1": ["tickets@1"], "3": ["tickets@3"]}


async def test_an_id_may_be_shortened_as_long_as_it_says_which(database: Database, reader: StoreReader) -> None:
    stored = await ingest(database, items(1), "tickets")
    assert await reader.datasets.called(stored.dataset_id[:8]) == [stored.dataset_id]
    assert await reader.datasets.called(stored.dataset_id[:5]) == []
    assert await reader.datasets.called("tickets") == [stored.dataset_id]
    assert await reader.datasets.called("%") == []


async def test_what_samples_have_in_common_is_counted(database: Database, reader: StoreReader, example: ExampleRun) -> None:
    given = [
        {"input": {"ticket": "a", "language": "de"}, "expected": "x", "tags": ["urgent", "old"], "weight": 2},
        {"input": {"ticket": "b"}, "expected": "x", "tags": ["urgent"]},
        {"input": "c", "expected": {"y": 1}},
    ]
    stored = await ingest(database, [Item.model_validate(item) for item in given], "tickets")
    detail = await reader.datasets.load(stored.dataset_id)
    assert detail is not None
    assert (detail.count, detail.total_weight, detail.used_by) == (3, 4.0, ())
    assert [(value.value, value.samples) for value in detail.tags] == [("urgent", 2), ("old", 1)]
    assert [(value.value, value.samples) for value in detail.expected] == [("x", 2), ({"y": 1}, 1)]
    assert [(value.value, value.samples) for value in detail.input_fields] == [("ticket", 2), ("language", 1)]
    assert await reader.datasets.load("0" * 64) is None
