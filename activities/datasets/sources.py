"""Where items come from: a list, a file of any format, an object in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from activities.datasets.csv_tables import read_csv
from activities.datasets.dataset_errors import DatasetError
from activities.datasets.file_folders import Folder, LocalFolder, ObjectFolder, Refusal
from activities.datasets.items import in_split, item_of
from activities.datasets.json_lists import read_json
from activities.datasets.objects import fetched
from activities.datasets.parquet_tables import read_parquet
from activities.datasets.sample_files import with_found_files
from activities.datasets.tables import Described, with_columns
from activities.datasets.text_lines import read_jsonl
from activities.settings import DEFAULT_OBJECT_MB, DatasetSettings
from workflows.model.spec.dataset import Columns, Dataset, Format, Item, SplitName, is_object

ENDINGS: Mapping[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Source(Protocol):
    """Something that can be read for items, more than once."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    def items(self) -> Iterator[tuple[str, Item]]:
        """Every item, with its place in the words of messages. Reading blocks, so it belongs in a thread."""


@dataclass(frozen=True)
class InlineItems:
    """The items of a spec."""

    given: Sequence[Item]
    name: str = "items"
    folder: Path | None = None
    """Where the files lie that they name."""

    def items(self) -> Iterator[tuple[str, Item]]:
        for index, item in enumerate(self.given):
            where = f"items[{index}]"
            yield where, with_found_files(where, item, None if self.folder is None else LocalFolder(self.folder))


@dataclass(frozen=True)
class Layout:
    """How a file is to be read."""

    format: Format | None = None
    columns: Columns | None = None
    delimiter: str | None = None

    def format_of(self, name: str) -> Format:
        """As given, or by the ending."""
        found = self.format or ENDINGS.get(PurePosixPath(name.lower()).suffix)
        if found is None:
            raise DatasetError(
                f"{name}: its ending does not say what it is; say so with dataset.format, one of {', '.join(sorted(FORMATS))}"
            )
        return found


@dataclass(frozen=True)
class FileSource:
    """A file on this machine."""

    path: Path
    layout: Layout = Layout()

    @property
    def name(self) -> str:
        return self.path.name

    def items(self) -> Iterator[tuple[str, Item]]:
        yield from _items_of(self.path, self.name, self.layout, LocalFolder(self.path.parent))


@dataclass(frozen=True)
class ObjectSource:
    """An object in S3, fetched for as long as it is read."""

    url: str
    layout: Layout = Layout()
    largest_mb: int = DEFAULT_OBJECT_MB
    refuse: Refusal | None = None
    """Of the files that its samples name; None where whoever reads it is the operator."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    def items(self) -> Iterator[tuple[str, Item]]:
        self.layout.format_of(self.name)
        with fetched(self.url, self.largest_mb) as path:
            folder = ObjectFolder(self.url.rpartition("/")[0] + "/", self.refuse)
            yield from _items_of(path, self.name, self.layout, folder)


@dataclass(frozen=True)
class SplitFiles:
    """One file or object for each split."""

    parts: Mapping[SplitName, Source]

    @property
    def name(self) -> str:
        return " + ".join(part.name for part in self.parts.values())

    def items(self) -> Iterator[tuple[str, Item]]:
        for split, part in self.parts.items():
            with _told_of(split):
                empty = True
                for where, item in part.items():
                    empty = False
                    yield f"dataset.paths.{split}: {where}", in_split(where, item, split)
                if empty:
                    raise DatasetError(f"{part.name} is empty; give at least one sample")


@contextmanager
def _told_of(split: SplitName) -> Iterator[None]:
    """Say in what is wrong with a split's file, which field names the file."""
    try:
        yield
    except DatasetError as error:
        told, unquoted = (text.removeprefix("dataset.path: ") for text in (str(error), error.unquoted))
        raise DatasetError(f"dataset.paths.{split}: {told}", unquoted=f"dataset.paths.{split}: {unquoted}") from None


def _items_of(path: Path, name: str, layout: Layout, folder: Folder) -> Iterator[tuple[str, Item]]:
    read = FORMATS[layout.format_of(name)]
    with _unreadable_told(name):
        for where, described, remark in read(path, name, layout):
            yield where, with_found_files(where, item_of(where, described, hint=remark), folder)


@contextmanager
def _unreadable_told(name: str) -> Iterator[None]:
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise DatasetError(f"{name} cannot be read: {error.strerror or error}") from None


def _objects(objects: Iterator[tuple[str, Any]], name: str, layout: Layout) -> Iterator[Described]:
    if layout.columns is not None:
        return with_columns(objects, name, layout.columns)
    return ((where, found, "") for where, found in objects)


FORMATS: Mapping[Format, Callable[[Path, str, Layout], Iterator[Described]]] = {
    "jsonl": lambda path, name, layout: _objects(read_jsonl(path, name), name, layout),
    "json": lambda path, name, layout: _objects(read_json(path, name), name, layout),
    "csv": lambda path, name, layout: read_csv(path, name, layout.columns, layout.delimiter or ","),
    "tsv": lambda path, name, layout: read_csv(path, name, layout.columns, layout.delimiter or "\t"),
    "parquet": lambda path, name, layout: read_parquet(path, name, layout.columns),
}


def as_source(given: Source | Path | Sequence[Item]) -> Source:
    """A path and a list, as sources."""
    if isinstance(given, Path):
        return FileSource(given)
    return InlineItems(given) if isinstance(given, Sequence) else given


def source_of(
    dataset: Dataset,
    file_at: Callable[[str], Path],
    settings: DatasetSettings,
    folder: Path | None = None,
    refuse_object: Refusal | None = None,
) -> Source:
    """What a spec's items, path or paths name; `file_at` says which file of this machine a path is. In `folder` are the files
    that items of the spec itself name; `refuse_object` raises for those beside an object that the operator does not list."""
    layout = Layout(dataset.format, dataset.columns, dataset.delimiter)

    def at(path: str) -> Source:
        if is_object(path):
            return ObjectSource(path, layout, settings.largest_object_mb, refuse_object)
        return FileSource(file_at(path), layout)

    if dataset.paths is not None:
        parts = {}
        for split, path in dataset.paths.items():
            with _told_of(split):
                parts[split] = at(path)
        return SplitFiles(parts)
    return InlineItems(dataset.items or [], folder=folder) if dataset.path is None else at(dataset.path)


def worker_file(
    path: str,
    data_directory: Path | None,
    field: str = "dataset.path",
    otherwise: str = "or ingest the file with `ratchet datasets add FILE` and give dataset.id",
) -> Path:
    """The file a spec names, if this worker may read it: inside its data directory, whatever links and dots the path has."""
    if data_directory is None:
        raise DatasetError(f"{field}: this worker reads no files; set RATCHET_DATA_DIR on the worker, {otherwise}")
    root = data_directory.resolve()
    try:
        file = (root / path).resolve()
        inside = file.is_relative_to(root)
        found = inside and file.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, NUL, links in a circle
        raise DatasetError(f"{field}: {path!r} is not a usable path; name a file inside RATCHET_DATA_DIR") from None
    if not inside:
        raise DatasetError(f"{field}: {path!r} leads outside RATCHET_DATA_DIR; name a file inside it")
    if not found:
        raise DatasetError(f"{field}: there is no file {path!r} in RATCHET_DATA_DIR; copy it there or correct the path")
    return file
