"""Datasets that a plug-in gives: taken once, checked like any other, under the operator's prefixes only."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.datasets import check_items
from activities.ingesting import PluginDatasets
from activities.plugins.calls import PluginCalls
from activities.plugins.loader import Plugins
from store.connection import Database
from store.read.reader import StoreReader
from store.write.datasets import Datasets
from workflows.model.run.contract import IngestedDataset, IngestInput
from workflows.model.spec.dataset import Item

MODULE = """
    import dataclasses
    from ratchet import Sample

    ITEMS = [
        {"input": {"q": 1}, "expected": "a", "tags": ["t"]},
        {"id": "x", "input": {"q": 2}},
        {"input": {"q": 2.0}, "id": "x"},
    ]
    calls = []

    def listed():
        return ITEMS

    def yielded():
        calls.append(1)
        for item in ITEMS:
            yield item

    async def awaited():
        return ITEMS

    async def streamed():
        for item in ITEMS:
            yield item

    class Source:
        def __call__(self):
            return tuple(ITEMS)

    made = Source()

    def samples():
        return [Sample(id="s", input=1, expected=2, weight=3.0, tags=("a", "b"))]

    def many():
        return ({"input": n} for n in range(30_000))

    SPLIT = {"train": ITEMS[:2], "dev": [Sample(id="d", input=3)], "test": ({"input": n} for n in (4, 5))}

    def split_by_item():
        found = [{**item, "split": "train"} for item in ITEMS[:2]]
        return [*found, {"id": "d", "input": 3, "split": "valid"}, *({"input": n, "split": "test"} for n in (4, 5))]
    def split_by_key():
        return SPLIT
    async def split_by_key_awaited():
        return dict(reversed(SPLIT.items()))
    def split_to_nothing():
        return {"train": ITEMS, "test": []}
    def split_otherwise():
        return {"train": ITEMS[:2], "holdout": []}

    def wrong():
        return [{"input": 1}, {"inputt": 2}]
    def other():
        return [{"input": 1}, 7]
    def text():
        return "items"
    def one():
        return {"input": 1}
    def nothing():
        return None
    def empty():
        return []
    def breaking():
        yield {"input": 1}
        raise RuntimeError("the table is gone")
    def leaving():
        raise SystemExit(3)
    def hungry(what):
        return []
    async def async_breaking():
        yield {"input": 1}
        raise RuntimeError("the table is gone")
"""

Give = Callable[[str], Any]


@pytest.fixture
def give(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Give:
    """Ingest what a callable of the module gives."""
    (tmp_path / "giving.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "giving", raising=False)
    datasets = PluginDatasets(database, Plugins(["giving"]), PluginCalls())

    async def give(ref: str) -> IngestedDataset:
        return await ActivityEnvironment().run(datasets.ingest_dataset, IngestInput(ref=ref, name="given"))

    return give


@pytest.mark.parametrize("name", ["listed", "yielded", "awaited", "streamed", "made"])
async def test_however_it_is_given_it_is_the_same_dataset(give: Give, reader: StoreReader, name: str) -> None:
    given = await give(f"giving:{name}")
    same = [Item(input={"q": 1}, expected="a", tags=["t"]), Item(id="x", input={"q": 2})]
    assert given == IngestedDataset(dataset_id=check_items(same).dataset_id, count=2, duplicates_dropped=1)
    [listed] = await reader.datasets.all()
    assert [(version.name, version.version) for version in listed.versions] == [("given", 1)]


async def test_a_generator_is_asked_once(give: Give) -> None:
    await give("giving:yielded")
    assert sys.modules["giving"].calls == [1]


async def test_samples_may_be_given_as_targets_see_them(give: Give, reader: StoreReader) -> None:
    given = await give("giving:samples")
    [sample] = await reader.datasets.samples(given.dataset_id)
    assert (sample.item_id, sample.input, sample.expected, sample.weight, sample.tags) == ("s", 1, 2, 3.0, ("a", "b"))


@pytest.mark.parametrize("name", ["split_by_item", "split_by_key", "split_by_key_awaited"])
async def test_splits_may_be_given_with_each_item_or_as_a_mapping(give: Give, database: Database, name: str) -> None:
    given = await give(f"giving:{name}")
    found = await Datasets(database).given_splits(given.dataset_id)
    assert [splits for _, splits in found] == [["train"], ["train"], ["validation"], ["test"], ["test"]]
    assert [item_id for item_id, _ in found][1:3] == ["x", "d"]


async def test_many_are_not_held_up_by_few_others(give: Give) -> None:
    """Other people's code runs beside the worker's own loop."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    assert (await give("giving:many")).count == 30_000
    ticking.cancel()
    assert ticks > 5


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("giving:wrong", "dataset.ref: plug-in giving:wrong item 2: input: is missing; add it; inputt: is not a known field"),
        ("giving:other", "plug-in giving:other item 2: 7 is not an item; give a mapping with input and expected, or a ratchet"),
        ("giving:text", "plug-in giving:text gave 'items'; let it return or yield items"),
        ("giving:one", "plug-in giving:one gave {'input': 1}; let it return or yield items"),
        ("giving:split_to_nothing", "plug-in giving:split_to_nothing gave no test items; leave the split out, or give some"),
        ("giving:split_otherwise", "giving:split_otherwise gave a mapping in which 'holdout' is no split; write train"),
        ("giving:nothing", "plug-in giving:nothing gave None; let it return or yield items"),
        ("giving:empty", "plug-in giving:empty is empty; give at least one sample"),
        ("giving:breaking", "plug-in giving:breaking raised RuntimeError: the table is gone"),
        ("giving:async_breaking", "plug-in giving:async_breaking raised RuntimeError: the table is gone"),
        ("giving:leaving", "plug-in giving:leaving raised SystemExit"),
        ("giving:hungry", "plug-in giving:hungry raised TypeError: hungry() missing 1 required positional argument: 'what'"),
        ("giving:missing", "module giving has no 'missing'"),
        ("os:listdir", "this worker does not allow module 'os'"),
    ],
)
async def test_what_is_wrong_is_said_once_and_leaves_nothing_behind(
    give: Give, reader: StoreReader, ref: str, message: str
) -> None:
    with pytest.raises(ApplicationError) as caught:
        await give(ref)
    assert message in caught.value.message
    assert caught.value.non_retryable
    assert await reader.datasets.all() == []
