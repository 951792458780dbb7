"""Datasets, looked through: pages, searches, what versions differ in, and what says the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from activities.datasets import InlineItems, ingest
from ratchet._encryption import EncryptionKeys
from store.connection import Database
from store.read.dataset_items import DatasetItemReader
from store.write.access.teams import Teams
from workflows.model.spec.dataset import Item

FIRST: list[dict[str, Any]] = [
    {"id": "a", "input": 'the "first" 100%'},
    {"id": "b", "input": {"q": "second"}, "expected": 2, "tags": ["x"]},
]
SECOND: list[dict[str, Any]] = [
    FIRST[0],
    {**FIRST[1], "expected": 3},
    {"id": "c", "input": 'the "first" 100%', "tags": ["x", "y"]},
]


async def stored(database: Database, items: list[dict[str, Any]], name: str = "tickets") -> str:
    found = await ingest(database, InlineItems([Item.model_validate(item) for item in items], name=name))
    return found.dataset_id


async def ids(reader: DatasetItemReader, dataset_id: str, **wanted: Any) -> list[str]:
    page = await reader.samples(dataset_id, **wanted)
    return [sample.item_id for sample in page.items]


async def test_samples_come_in_pages_by_text_and_by_tag(database: Database) -> None:
    dataset_id, reader = await stored(database, SECOND), DatasetItemReader(database)
    page = await reader.samples(dataset_id, limit=2)
    assert (page.total, page.searched, [one.item_id for one in page.items], page.next_after) == (3, "contents", ["a", "b"], 1)
    assert await ids(reader, dataset_id, after=1) == ["c"]
    assert await ids(reader, dataset_id, search='"FIRST" 100%') == ["a", "c"]
    assert await ids(reader, dataset_id, search="f_rst") == []
    assert await ids(reader, dataset_id, tag="x") == ["b", "c"]
    assert await ids(reader, dataset_id, split="test") == []


async def test_versions_are_told_with_what_they_differ_in_and_what_says_the_same(database: Database) -> None:
    one, other, reader = await stored(database, FIRST), await stored(database, SECOND), DatasetItemReader(database)
    found = await reader.difference(one, other)
    assert (found.same, found.added, found.removed, found.changed) == (1, 1, 0, 1)
    assert ([s.item_id for s in found.added_samples], [s.item_id for s in found.changed_samples]) == (["c"], ["b"])
    assert [change.model_dump() for change in found.changed_samples[0].changes or ()] == [
        {"part": "expected", "before": "2", "after": "3"}
    ]
    back = await reader.difference(other, one)
    assert (back.same, back.added, back.removed, back.changed) == (1, 0, 1, 1)
    assert [(version.name, version.version) for version in (await reader.use(one, None)).versions] == [
        ("tickets", 2),
        ("tickets", 1),
    ]
    copies = await reader.copies(other)
    assert (copies.groups, copies.extra, [s.item_id for s in copies.items[0].samples]) == (1, 1, ["a", "c"])
    assert (await reader.copies(one)).groups == 0


async def test_of_a_changed_sample_each_part_is_told_and_of_a_long_one_what_is_around_the_change(database: Database) -> None:
    long = "word " * 1_000
    before = {"id": "a", "input": {"text": f"{long}old {long}", "kind": "one", "gone": True}, "tags": ["x"]}
    after = {"id": "a", "input": {"text": f"{long}new {long}", "kind": "one"}, "expected": "yes", "tags": ["x", "y"]}
    reader = DatasetItemReader(database)
    found = await reader.difference(await stored(database, [before]), await stored(database, [after]))
    changes = {change.part: (change.before, change.after) for change in found.changed_samples[0].changes or ()}
    assert set(changes) == {"input.text", "input.gone", "expected", "tags"}
    assert (changes["input.gone"], changes["expected"], changes["tags"]) == (("true", None), ("", "yes"), ("x", "x, y"))
    told = changes["input.text"]
    assert ("word old word" in (told[0] or ""), "word new word" in (told[1] or ""), len(told[0] or "") < 1_100) == (True,) * 3
    too_long = [{**before, "input": random.Random(1).randbytes(40_000).hex()}, {**before, "input": "short"}]
    found = await reader.difference(*[await stored(database, [one]) for one in too_long])
    assert found.changed_samples[0].changes is None


async def test_a_team_is_shown_what_it_has_alone(database: Database) -> None:
    await Teams(database).create("alpha", [], "a test")
    mine, reader = await stored(database, FIRST, "mine"), DatasetItemReader(database)
    await stored(database, SECOND, "others")
    await Teams(database).claim_dataset(mine, "alpha")
    page = await reader.page(team="alpha")
    assert (page.total, [one.dataset_id for one in page.items], page.items[0].versions) == (1, [mine], ("mine@1",))
    assert (await reader.page(team=None)).total == 2
    assert [one.name for one in (await reader.page(team=None, search="OTH")).items] == ["others"]
    assert (await reader.page(team=None, search=mine[:8], limit=1)).total == 1


async def test_encrypted_samples_are_compared_and_found_by_id_alone(database_url: str) -> None:
    database = await Database.open(database_url, keys=EncryptionKeys({"old": bytes(32)}), most_connections=2)
    try:
        dataset_id, reader = await stored(database, SECOND), DatasetItemReader(database)
        assert (await reader.samples(dataset_id, search="second")).total == 0
        assert await ids(reader, dataset_id, search="C") == ["c"]
        copies = await reader.copies(dataset_id)
        assert [(s.item_id, s.input) for s in copies.items[0].samples] == [("a", FIRST[0]["input"]), ("c", FIRST[0]["input"])]
    finally:
        await database.close()


@pytest.mark.parametrize("known", [True, False])
async def test_a_dataset_is_there_or_not(database: Database, known: bool) -> None:
    dataset_id = await stored(database, FIRST) if known else "0" * 64
    assert await DatasetItemReader(database).exists(dataset_id) is known
