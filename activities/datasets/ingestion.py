"""Ingesting: check item by item, drop copies, hash what is left, and store it under that hash.

A dataset's hash covers the split that each sample was given in; an item's does not, so that its answers serve every split.
An item's hash covers input, expected, weight and tags, and the id where one was given: what a target can tell apart is a
sample of its own. Items that are equal in all of that are one sample; the copies are dropped and counted. Those that are equal
in input and expected alone stay apart, and count as one where trials are compared (`workflows.rules.scoring.clusters`).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.file_folders import NamedFile, Unusable
from activities.datasets.items import NESTED_TOO_DEEPLY
from activities.datasets.sample_files import FoundFile, found_in
from activities.datasets.sources import Source, as_source
from activities.settings import DATASET_MB, DEFAULT_DATASET_MB
from ratchet._files import MARK, FileReference
from ratchet._formats.canonical import NotCanonical, canonical_json, content_hash, normalize_text
from store.connection import Database
from store.read.sample_files import FileReader
from store.write.datasets import Datasets, SampleRow
from store.write.kept_files import FileRow
from workflows.model.spec.dataset import SPLIT_NAMES, Item, SplitName

ROWS_PER_BATCH = 1000
LENGTH_OF_DEFAULT_ID = 16
LARGEST_IN_MEMORY = 4 * 1024 * 1024
"""Bytes of rows that wait for the store in memory; more wait in a temporary file."""

Look = Callable[[str, Item, SampleRow], None]


@dataclass(frozen=True, slots=True)
class Ingested:
    """A dataset that is in the store."""

    dataset_id: str
    count: int
    duplicates_dropped: int = 0
    given: Sequence[Sequence[SplitName]] = field(default=(), compare=False, repr=False)
    """For every sample the splits that it was given in; empty where none was."""
    files: Mapping[FileReference, NamedFile | None] = field(default_factory=dict, compare=False, repr=False)
    """The files that its samples name, and where they were found; None of those that must be in the store already."""


async def ingest(
    database: Database,
    source: Source | Path | Sequence[Item],
    name: str | None = None,
    *,
    largest_mb: int = DEFAULT_DATASET_MB,
) -> Ingested:
    """Store a dataset under its content's hash, and as the newest version of its name.

    The source is read once: what is hashed is what is stored, even when the file changes meanwhile. A dataset that is wrong
    somewhere leaves nothing behind, and one that is there already is not written again.
    """
    given = as_source(source)
    with tempfile.SpooledTemporaryFile(LARGEST_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as waiting:
        ingested = await asyncio.to_thread(_read, given, waiting, largest_mb)
        waiting.seek(0)
        called = name or ("inline items" if given.name == "items" else given.name)
        batches = partial(asyncio.to_thread, _batch, waiting, ingested.given)
        await _refuse_unknown_files(database, ingested)
        await Datasets(database).store(ingested.dataset_id, called, ingested.count, batches, _files(ingested))
    return ingested


async def _refuse_unknown_files(database: Database, ingested: Ingested) -> None:
    by_hash = [reference for reference, place in ingested.files.items() if place is None]
    unknown = await FileReader(database).unknown(by_hash) if by_hash else None
    if unknown is not None:
        wrong = f"no {unknown.media_type} of {unknown.size:,} bytes with sha256 {unknown.digest} is in the store"
        raise DatasetError(f"a sample names a file by its content, but {wrong}; give the file's path")


async def _files(ingested: Ingested) -> AsyncIterator[FileRow]:
    for reference, place in ingested.files.items():
        content = None if place is None else await asyncio.to_thread(read_again, reference, place)
        yield FileRow(reference.digest, reference.media_type, content)


def read_again(reference: FileReference, place: NamedFile) -> bytes:
    """Read a file for the store, which gets only what was hashed. Raises DatasetError where it is another one by now."""
    try:
        content = place.read()
    except Unusable as error:
        raise DatasetError(f"{place.name} {error}") from None
    if hashlib.sha256(content).hexdigest() != reference.digest:
        raise DatasetError(f"{place.name} changed while it was read; try again")
    return content


def check_items(source: Source | Path | Sequence[Item], *looks: Look, largest_mb: int = DEFAULT_DATASET_MB) -> Ingested:
    """What `ingest` would store, without a store; each look is taken at every item that would be."""
    given = as_source(source)
    intake = _Intake(given.name, largest_mb, looks)
    for _row in intake.rows(given.items()):
        pass
    return intake.ingested(given)


def content_of(row: SampleRow) -> bytes:
    """A hash of what a sample says, as the store computes it: of input and expected, whatever its id, weight and tags."""
    return hashlib.sha256(f"{row.input}\n{row.expected}".encode()).digest()


def _read(source: Source, waiting: IO[str], largest_mb: int) -> Ingested:
    intake = _Intake(source.name, largest_mb)
    for row in intake.rows(source.items()):
        waiting.write(json.dumps(row) + "\n")
    return intake.ingested(source)


def _batch(waiting: IO[str], given: Sequence[Sequence[SplitName]]) -> list[SampleRow]:
    rows = [SampleRow(*json.loads(line)) for line in itertools.islice(waiting, ROWS_PER_BATCH)]
    return [row._replace(splits=given[row.position]) for row in rows] if given else rows


@dataclass
class _Intake:
    """Turns items into rows, drops copies, and hashes what it lets through."""

    name: str
    largest_mb: int
    looks: Sequence[Look] = ()
    count: int = 0
    duplicates: int = 0
    size: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)
    _place_by_hash: dict[bytes, int] = field(default_factory=dict)
    _given: list[tuple[SplitName, ...]] = field(default_factory=list)
    _hash_by_given_id: dict[str, bytes] = field(default_factory=dict)
    _files: dict[FileReference, NamedFile | None] = field(default_factory=dict)

    def ingested(self, source: Source) -> Ingested:
        if self.count == 0:
            raise DatasetError(f"{source.name} is empty; give at least one sample")
        if self._given:
            self._digest.update(canonical_json(self._given).encode())
        return Ingested(str(self._digest.hexdigest()), self.count, self.duplicates, tuple(self._given), self._files)

    def rows(self, items: Iterable[tuple[str, Item]]) -> Iterator[SampleRow]:
        for where, item in items:
            row = _row(where, item, self.count)
            self._refuse_large(len(row.input) + len(row.expected) + self._take_files(row, item))
            key = bytes.fromhex(row.item_hash)
            self._refuse_some_without_split(where, item)
            if key in self._place_by_hash:
                self._take_copy(self._place_by_hash[key], item)
                continue
            if item.id is not None and self._hash_by_given_id.setdefault(row.item_id, key) != key:
                wrong = "was used before for another content; give each item its own id"
                raise DatasetError(f"{where}: id {row.item_id!r} {wrong}", unquoted=f"{where}: its id {wrong}")
            for look in self.looks:
                look(where, item, row)
            self._place_by_hash[key] = self.count
            if item.split is not None:
                self._given.append((item.split,))
            self._digest.update(canonical_json([row.item_hash, row.item_id]).encode())
            self.count += 1
            yield row

    def _take_files(self, row: SampleRow, item: Item) -> int:
        """Note the files that an item names; the bytes of those that no item before it did."""
        if f'"{MARK}":' not in row.input:
            return 0
        more = 0
        for file in found_in(item.input):
            reference, place = (file.reference, file.place) if isinstance(file, FoundFile) else (file, None)
            more += 0 if reference in self._files else reference.size
            self._files[reference] = self._files.get(reference) or place
        return more

    def _take_copy(self, place: int, item: Item) -> None:
        """A sample that was given for several splits is kept once, with all of them."""
        if item.split is None or item.split in self._given[place]:
            self.duplicates += 1
            return
        self._given[place] = tuple(split for split in SPLIT_NAMES if split in (*self._given[place], item.split))

    def _refuse_some_without_split(self, where: str, item: Item) -> None:
        if self.count and (item.split is None) == bool(self._given):
            names, others = ("names no split", "do") if item.split is None else ("names a split", "do not")
            raise DatasetError(f"{where}: {names}, and those before it {others}; give every item its split, or none")

    def _refuse_large(self, more: int) -> None:
        """A small file may unfold to more than this machine's disk and the store should hold."""
        self.size += more
        if self.size > self.largest_mb * 1024 * 1024:
            fix = f"make it smaller, or raise {DATASET_MB} where it is read"
            raise DatasetError(f"{self.name}: its items and their files have more than {self.largest_mb:,} MB; {fix}")


def _row(where: str, item: Item, position: int) -> SampleRow:
    try:
        content = {
            "input": item.input,
            "expected": item.expected,
            "weight": item.weight,
            "tags": [normalize_text(tag) for tag in item.tags],
        }
        if item.id is not None:
            content["id"] = normalize_text(item.id)
        item_hash = content_hash(content)
        return SampleRow(
            position,
            item_hash,
            str(content.get("id", item_hash[:LENGTH_OF_DEFAULT_ID])),
            canonical_json(item.input),
            canonical_json(item.expected),
            item.weight,
            [normalize_text(tag) for tag in item.tags],
        )
    except NotCanonical as error:
        raise DatasetError(f"{where}: {error}", unquoted=f"{where}: has a value that JSON cannot carry") from None
    except RecursionError:
        raise DatasetError(f"{where}: {NESTED_TOO_DEEPLY}") from None
