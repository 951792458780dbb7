"""From the columns of a table to items."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from activities.datasets.dataset_errors import DatasetError, shown
from workflows.model.spec.dataset import Columns

EXPECTED = ("expected", "label", "answer", "target")
"""By these names a column says what a good answer is, when the spec names none."""

MOST_COLUMNS = 10_000

Row = Mapping[str, Any]
Described = tuple[str, Mapping[str, Any], str]
"""Where something is said of an item, what is said, and a remark that helps to understand what is wrong with it."""


class TableReader:
    """Knows which column is which part of an item."""

    def __init__(self, name: str, header: Sequence[str], given: Columns | None) -> None:
        self._name = name
        self._header = list(header)
        self._given = given or Columns()
        _refuse_repeated(name, header)
        self.id = self._column("id", self._given.id, ("id",))
        self.weight = self._column("weight", self._given.weight, ("weight",))
        self.expected = self._column("expected", self._given.expected, EXPECTED)
        self.tags = self._columns("tags", self._given.tags) or [found for found in [self._named("tags")] if found]
        self.split = self._column("split", self._given.split, ("split",))
        if self._given.split is None and self.split in (self._given.input or ()):
            self.split = None
        self.input = self._columns("input", self._given.input) or self._all_others()
        self._is_the_input_itself = self._given.input is None and self.input == ["input"]
        self.remark = self._renamed()

    def item(self, row: Row) -> dict[str, Any]:
        """The item a row describes. An empty cell of anything but the input counts as none."""
        item: dict[str, Any] = {
            "input": row["input"] if self._is_the_input_itself else {name: row[name] for name in self.input}
        }
        if self.expected is not None:
            item["expected"] = _or_none(row[self.expected])
        if self.id is not None and _or_none(row[self.id]) is not None:
            item["id"] = str(row[self.id])
        if self.weight is not None and _or_none(row[self.weight]) is not None:
            item["weight"] = row[self.weight]
        if self.split is not None:
            item["split"] = _or_none(row[self.split])
        if self.tags:
            item["tags"] = [tag for name in self.tags for tag in _tags(row[name])]
        return item

    def _renamed(self) -> str:
        named = {"id": self.id, "weight": self.weight, "expected": self.expected, "split": self.split}
        renamed = [f"{part} is column {column!r}" for part, column in named.items() if column not in (None, part)]
        return f" ({', '.join(renamed)})" if renamed else ""

    def _column(self, part: str, given: str | None, usual: Sequence[str]) -> str | None:
        if given is not None:
            return self._present(part, given)
        found = [column for column in (self._named(name) for name in usual) if column is not None]
        if len(found) > 1:
            raise DatasetError(
                f"{self._name}: columns {' and '.join(map(repr, found))} could both be {part}; "
                f"say which with dataset.columns.{part}"
            )
        return found[0] if found else None

    def _columns(self, part: str, given: Sequence[str] | None) -> list[str]:
        return [self._present(part, column) for column in given or []]

    def _present(self, part: str, column: str) -> str:
        if column not in self._header:
            wrong = f"{self._name}: has no column {column!r}, which dataset.columns.{part} names"
            raise DatasetError(f"{wrong}; its columns are {shown(', '.join(self._header))}", unquoted=wrong)
        return column

    def _named(self, name: str) -> str | None:
        return next((column for column in self._header if column.strip().casefold() == name), None)

    def _all_others(self) -> list[str]:
        taken = {self.id, self.weight, self.expected, self.split, *self.tags}
        others = [column for column in self._header if column not in taken]
        if not others:
            wrong = f"{self._name}: no column is left for the input{{}}; say which with dataset.columns.input"
            there = f" (its columns are {shown(', '.join(self._header))})"
            raise DatasetError(wrong.format(there), unquoted=wrong.format(""))
        return others


def _refuse_repeated(name: str, header: Sequence[str]) -> None:
    if not header:
        raise DatasetError(f"{name}: has no columns; its first line must name them")
    if len(header) > MOST_COLUMNS:
        raise DatasetError(f"{name}: has {len(header):,} columns, at most {MOST_COLUMNS:,} can be read; leave some out")
    times = Counter(header)
    for number, column in enumerate(header, start=1):
        if not column.strip():
            raise DatasetError(f"{name}: column {number} has no name; name it in the first line")
        if times[column] > 1:
            raise DatasetError(
                f"{name}: column {column!r} is there twice; rename one", unquoted=f"{name}: column {number} is there twice"
            )


def _or_none(cell: Any) -> Any:
    return None if isinstance(cell, str) and not cell.strip() else cell


def _tags(cell: Any) -> list[Any]:
    match cell:
        case None:
            return []
        case str():
            return [tag.strip() for tag in re.split("[,;]", cell) if tag.strip()]
        case list() | tuple():
            return list(cell)
    return [str(cell)]


def with_columns(objects: Iterator[tuple[str, Any]], name: str, columns: Columns) -> Iterator[Described]:
    """Objects of JSON, their keys read as columns; a key that one of them lacks is an empty cell."""
    beginning = next(objects, None)
    if beginning is None:
        return
    first = beginning[1]
    reader = TableReader(name, list(first), columns)
    for where, found in itertools.chain([beginning], objects):
        unknown = next((key for key in found if key not in first), None)
        if unknown is not None and columns.input is None:
            wrong = "which the first item lacks; name the keys of the input with dataset.columns.input"
            raise DatasetError(f"{where}: has {unknown!r}, {wrong}", unquoted=f"{where}: has a key, {wrong}")
        yield where, reader.item({**dict.fromkeys(first), **found}), reader.remark
