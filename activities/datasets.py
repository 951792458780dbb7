"""Datasets: read from JSONL or a list, checked item by item, stored under the hash of their content, split by the run's seed.

An item's hash covers input, expected, weight and tags, and the id where one was given: what a target can tell apart is a
sample of its own. Items that are equal in all of that are one sample; the copies are dropped and counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from activities.store import samples
from activities.store.connection import Database
from activities.store.samples import SampleRow
from workflows.model.dataset import Item, Splits
from workflows.model.explanation import explain
from workflows.model.trial import Split
from workflows.rules.canonical import NotCanonical, canonical_json, content_hash, normalize_text

LONGEST_LINE = 16 * 1024 * 1024
ROWS_PER_BATCH = 1000
LENGTH_OF_DEFAULT_ID = 16


class DatasetError(ValueError):
    """A dataset that cannot be used. The message names the place, the value and the fix."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """A dataset that is in the store."""

    dataset_id: str
    count: int
    duplicates_dropped: int = 0


Source = Path | Sequence[Item]


async def ingest(database: Database, source: Source, name: str | None = None) -> Ingested:
    """Store a dataset under its content's hash; one that is there already is only read, not written again."""
    survey = await asyncio.to_thread(_survey, source)
    called = name or (source.name if isinstance(source, Path) else "inline items")
    async with database.transaction() as connection:
        if not await samples.new_dataset(connection, survey.dataset_id, called, survey.count):
            return survey
        intake = _Intake()
        rows = intake.rows(_items(source))
        while batch := await asyncio.to_thread(lambda: list(itertools.islice(rows, ROWS_PER_BATCH))):
            await samples.add_samples(connection, survey.dataset_id, batch)
        if intake.dataset_id != survey.dataset_id:
            raise DatasetError(f"{called} changed while it was read; try again when nobody writes to it")
    return survey


def _survey(source: Source) -> Ingested:
    """A first look at the whole source: everything wrong is found before anything is stored."""
    intake = _Intake()
    for _row in intake.rows(_items(source)):
        pass
    if intake.count == 0:
        where = source.name if isinstance(source, Path) else "items"
        raise DatasetError(f"{where} is empty; give at least one sample")
    return Ingested(intake.dataset_id, intake.count, intake.duplicates)


def check_items(source: Source) -> Ingested:
    """What `ingest` would store, without a store: for checking a file before anything is started."""
    return _survey(source)


@dataclass
class _Intake:
    """Turns items into rows, drops copies, and hashes what it lets through."""

    count: int = 0
    duplicates: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)
    _hashes: set[bytes] = field(default_factory=set)
    _hash_by_given_id: dict[str, bytes] = field(default_factory=dict)

    @property
    def dataset_id(self) -> str:
        return str(self._digest.hexdigest())

    def rows(self, items: Iterable[tuple[str, Item]]) -> Iterator[SampleRow]:
        for where, item in items:
            row = _row(where, item, self.count)
            key = bytes.fromhex(row.item_hash)
            if key in self._hashes:
                self.duplicates += 1
                continue
            if item.id is not None and self._hash_by_given_id.setdefault(row.item_id, key) != key:
                raise DatasetError(
                    f"{where}: id {row.item_id!r} was used before for another content; give each item its own id"
                )
            self._hashes.add(key)
            self._digest.update(canonical_json([row.item_hash, row.item_id]).encode())
            self.count += 1
            yield row


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
        raise DatasetError(f"{where}: {error}") from None
    except RecursionError:
        raise DatasetError(f"{where}: is nested too deeply; flatten it") from None


def _items(source: Source) -> Iterator[tuple[str, Item]]:
    if isinstance(source, Path):
        yield from read_jsonl(source)
    else:
        yield from ((f"items[{index}]", item) for index, item in enumerate(source))


def read_jsonl(path: Path) -> Iterator[tuple[str, Item]]:
    """The items of a file with the place of each, a line at a time. Empty lines are skipped."""
    try:
        with path.open("rb") as file:
            for number in itertools.count(1):
                line = file.readline(LONGEST_LINE + 1)
                if not line:
                    return
                where = f"{path.name} line {number}"
                if len(line) > LONGEST_LINE:
                    raise DatasetError(f"{where}: is longer than {LONGEST_LINE:,} bytes; keep large content behind a reference")
                text = _decoded(where, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
                if text.strip():
                    yield where, _item(where, text)
    except OSError as error:
        raise DatasetError(f"{path.name} cannot be read: {error.strerror or error}") from None


def _decoded(where: str, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{where}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def _item(where: str, text: str) -> Item:
    try:
        value = json.loads(text, parse_constant=_not_a_number, object_pairs_hook=_each_key_once)
    except json.JSONDecodeError as error:
        raise DatasetError(
            f"{where}: is not JSON ({error.msg} at column {error.colno}): {_shown(text)}; {_hint(text)}"
        ) from None
    except RecursionError:
        raise DatasetError(f"{where}: is nested too deeply; flatten it") from None
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from None
    if not isinstance(value, dict):
        raise DatasetError(f'{where}: {_shown(text)} is not an item; write an object such as {{"input": …, "expected": …}}')
    try:
        return Item.model_validate(value)
    except pydantic.ValidationError as error:
        raise DatasetError(f"{where}: {'; '.join(explain(error))}") from None
    except RecursionError:
        raise DatasetError(f"{where}: is nested too deeply; flatten it") from None


def _not_a_number(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number; write a finite number or null")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {repeated!r} is there twice; keep one")
    return value


def _hint(text: str) -> str:
    if text.strip() in {"[", "{"}:
        return "JSONL has one whole item per line, without a list around them"
    return "write one JSON object per line"


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 80 else text[:79] + "…"


def worker_file(path: str, data_directory: Path | None) -> Path:
    """The file a spec names, if this worker may read it: inside its data directory, whatever links and dots the path has."""
    if data_directory is None:
        raise DatasetError(
            "dataset.path: this worker reads no files; set RATCHET_DATA_DIR on the worker, "
            "or ingest the file with `ratchet datasets add FILE` and give dataset.id"
        )
    root = data_directory.resolve()
    try:
        file = (root / path).resolve()
        inside = file.is_relative_to(root)
        found = inside and file.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, NUL, links in a circle
        raise DatasetError(f"dataset.path: {path!r} is not a usable path; name a file inside RATCHET_DATA_DIR") from None
    if not inside:
        raise DatasetError(f"dataset.path: {path!r} leads outside RATCHET_DATA_DIR; name a file inside it")
    if not found:
        raise DatasetError(f"dataset.path: there is no file {path!r} in RATCHET_DATA_DIR; copy it there or correct the path")
    return file


def draw_splits(item_hashes: Sequence[str], splits: Splits | None, seed: int) -> dict[Split, list[str]]:
    """Which samples belong to which split, in an order that depends on nothing but the seed and their content."""
    drawn = sorted(item_hashes, key=lambda item_hash: hashlib.sha256(f"{seed}:{item_hash}".encode()).digest())
    if splits is None:
        return {Split.ALL: drawn}
    shares = {Split.VALIDATION: splits.validation, Split.TEST: splits.test, Split.TRAIN: splits.train}
    result: dict[Split, list[str]] = {}
    start = 0
    for split, size in _sizes(shares, len(drawn)).items():
        result[split] = drawn[start : start + size]
        start += size
    return result


def _sizes(shares: dict[Split, float], count: int) -> dict[Split, int]:
    """Whole numbers by largest remainder. A share above 0 gets at least one sample, those first that matter most."""
    quotas = {split: share * count for split, share in shares.items()}
    sizes = {split: math.floor(quota + 1e-9) for split, quota in quotas.items()}
    to_give = round(sum(quotas.values())) - sum(sizes.values())
    for split in sorted(quotas, key=lambda split: sizes[split] - quotas[split])[: max(to_give, 0)]:
        sizes[split] += 1
    searched = Split.VALIDATION if shares[Split.VALIDATION] > 0 else Split.TRAIN
    by_importance = [searched, Split.TEST, *({Split.TRAIN} - {searched})]
    for split in by_importance:
        if shares[split] > 0 and sizes[split] == 0:
            _take_one(sizes, split, count, by_importance)
    return sizes


def _take_one(sizes: dict[Split, int], needy: Split, count: int, by_importance: list[Split]) -> None:
    if sum(sizes.values()) < count:
        sizes[needy] += 1
        return
    less_important = by_importance[by_importance.index(needy) + 1 :]
    largest = max(sizes, key=lambda split: sizes[split])
    giver = largest if sizes[largest] > 1 else next((split for split in less_important if sizes[split] > 0), None)
    if giver is not None:
        sizes[giver] -= 1
        sizes[needy] += 1
