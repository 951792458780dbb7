"""Datasets that a plug-in gives: a callable without arguments, whose items are taken once and stored."""

from __future__ import annotations

import dataclasses
import inspect
import json
import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from temporalio import activity

from activities.datasets.ingesting import ingest
from activities.datasets.items import item_of
from activities.datasets.problems import DatasetError, shown
from activities.heartbeat import heartbeating
from activities.plugin_calls import PluginCalls
from activities.plugins import Plugins, invalid
from activities.store.connection import Database
from activities.store.refusals import store_errors
from ratchet import Sample
from workflows.contracts import Ingesting
from workflows.model.dataset import Item
from workflows.model.failures import described
from workflows.model.run import IngestedDataset, IngestInput


class PluginDatasets(Ingesting):
    """Calls plug-ins for datasets; one per worker process."""

    def __init__(self, database: Database, plugins: Plugins, calls: PluginCalls) -> None:
        self._database = database
        self._plugins = plugins
        self._calls = calls

    @activity.defn(name="ingest_dataset")
    async def ingest_dataset(self, request: IngestInput) -> IngestedDataset:
        async with heartbeating():
            with store_errors():
                try:
                    return await self._ingest(request)
                except DatasetError as error:
                    raise invalid(f"dataset.ref: {error}") from None

    async def _ingest(self, request: IngestInput) -> IngestedDataset:
        """Other people's code runs in a daemon thread, and what it yields waits in a file: it may be more than memory holds."""
        plugin = await self._calls.threads.run(lambda: self._plugins.resolve(request.ref, 0))
        with tempfile.TemporaryDirectory(prefix="ratchet-dataset-") as folder:
            taken = _Taken(Path(folder) / "items", request.ref)
            try:
                if plugin.is_async or inspect.isasyncgenfunction(plugin.call):
                    await self._calls.loops.of(request.ref).run(lambda: taken.take_async(plugin.call()))
                else:
                    await self._calls.threads.run(lambda: taken.take(plugin.call()))
            except DatasetError:
                raise
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                raise DatasetError(f"plug-in {request.ref} raised {described(error)}") from error
            ingested = await ingest(self._database, taken, request.name)
        return IngestedDataset(
            dataset_id=ingested.dataset_id, count=ingested.count, duplicates_dropped=ingested.duplicates_dropped
        )


class _Taken:
    """What a plug-in gave, as a source that can be read."""

    def __init__(self, file: Path, reference: str) -> None:
        self._file = file
        self._reference = reference
        self.name = f"plug-in {reference}"

    def take(self, given: Any) -> None:
        self._refuse_other_than_items(given, isinstance(given, Iterable))
        with self._file.open("w", encoding="utf-8") as file:
            for number, value in enumerate(given, start=1):
                file.write(self._line(number, value))

    async def take_async(self, given: Any) -> None:
        if inspect.isawaitable(given):
            given = await given
        if not isinstance(given, AsyncIterable):
            self.take(given)
            return
        with self._file.open("w", encoding="utf-8") as file:
            number = 0
            async for value in given:
                number += 1
                file.write(self._line(number, value))

    def items(self) -> Iterator[tuple[str, Item]]:
        with self._file.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                yield self._place(number), Item.model_construct(**json.loads(line))

    def _line(self, number: int, value: Any) -> str:
        where = self._place(number)
        described_as = _as_mapping(value)
        if described_as is None:
            raise DatasetError(
                f"{where}: {shown(repr(value))} is not an item; give a mapping with input and expected, or a ratchet.Sample"
            )
        return json.dumps(item_of(where, described_as).model_dump(mode="json")) + "\n"

    def _place(self, number: int) -> str:
        return f"{self.name} item {number}"

    def _refuse_other_than_items(self, given: Any, many: bool) -> None:
        if not many or isinstance(given, str | bytes | Mapping):
            raise DatasetError(f"{self.name} gave {shown(repr(given))}; let it return or yield items")


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Sample):
        return {**dataclasses.asdict(value), "tags": list(value.tags)}
    return value if isinstance(value, Mapping) else None
