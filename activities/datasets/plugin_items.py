"""What a plug-in gives as a dataset, taken once and kept in a file: it may be more than memory holds."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from activities.datasets.dataset_errors import DatasetError, shown
from activities.datasets.items import in_split, item_of
from activities.datasets.sample_files import with_found_files
from activities.plugins.loader import Plugin
from ratchet import Sample
from workflows.model.spec.dataset import Item, SplitName, by_split, split_called


def is_async(plugin: Plugin) -> bool:
    """Whether what it gives must be awaited in a loop."""
    return plugin.is_async or inspect.isasyncgenfunction(plugin.call)


class Taken:
    """What a plug-in gave, as a source that can be read."""

    def __init__(self, file: Path, reference: str) -> None:
        self._file = file
        self._reference = reference
        self.name = f"plug-in {reference}"

    def take_all(self, plugin: Plugin) -> None:
        """Everything, in a process that does nothing else."""
        if is_async(plugin):
            asyncio.run(self.take_async(plugin.call()))
        else:
            self.take(plugin.call())

    def take(self, given: Any) -> None:
        """Items, or a mapping with the items of each split."""
        parts: Mapping[SplitName | None, Any] = {None: given}
        if isinstance(given, Mapping) and any(split_called(word) for word in given):
            try:
                parts = dict(by_split(given).items())
            except ValueError as error:
                raise DatasetError(f"{self.name} gave a mapping in which {error}") from None
        for part in parts.values():
            self._refuse_other_than_items(part, isinstance(part, Iterable))
        with self._file.open("w", encoding="utf-8") as file:
            number = 0
            for split, part in parts.items():
                before = number
                for value in part:
                    number += 1
                    file.write(self._line(number, value, split))
                if split is not None and number == before:
                    raise DatasetError(f"{self.name} gave no {split} items; leave the split out, or give some")

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
                yield self._place(number), with_found_files(self._place(number), Item.model_construct(**json.loads(line)), None)

    def _line(self, number: int, value: Any, split: SplitName | None = None) -> str:
        where = self._place(number)
        described_as = _as_mapping(value)
        if described_as is None:
            raise DatasetError(
                f"{where}: {shown(repr(value))} is not an item; give a mapping with input and expected, or a ratchet.Sample"
            )
        item = item_of(where, described_as)
        return json.dumps((item if split is None else in_split(where, item, split)).model_dump(mode="json")) + "\n"

    def _place(self, number: int) -> str:
        return f"{self.name} item {number}"

    def _refuse_other_than_items(self, given: Any, many: bool) -> None:
        if not many or isinstance(given, str | bytes | Mapping):
            fix = "let it return or yield items, or return a mapping with the items of each split"
            raise DatasetError(f"{self.name} gave {shown(repr(given))}; {fix}")


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Sample):
        return {**{name: part for name, part in dataclasses.asdict(value).items() if name != "files"}, "tags": list(value.tags)}
    return value if isinstance(value, Mapping) else None
