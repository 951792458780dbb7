"""Files that samples name: found beside their dataset, bounded, told apart by what they hold, and named by their content.

A file lies in the folder of its dataset (of an inline one: of the spec for the command line, RATCHET_DATA_DIR for a worker), or
below. No link and no dots lead out of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from activities.datasets.dataset_errors import DatasetError, shown
from ratchet._files import IMAGES, MARK, PDF, TEXT, FileReference, names_a_file
from workflows.model.spec.dataset import Item

LARGEST_FILE_MB: Final = 20
MOST_FILES: Final = 1000
"""Of one sample."""

_BEGINNINGS: Final = {b"\x89PNG\r\n\x1a\n": IMAGES[0], b"\xff\xd8\xff": IMAGES[1], b"GIF87a": IMAGES[2], b"GIF89a": IMAGES[2]}
OTHER: Final = "application/octet-stream"


class FoundFile(dict[str, Any]):
    """A reference to a file that was found, and where; it equals the bare reference."""

    def __init__(self, reference: FileReference, path: Path) -> None:
        super().__init__(reference.as_json())
        self.reference = reference
        self.path = path


def media_type_of(content: bytes) -> str:
    """Tell by what a file holds, whatever it is called, what it is."""
    found = next((kind for beginning, kind in _BEGINNINGS.items() if content.startswith(beginning)), None)
    if found is not None:
        return found
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return IMAGES[3]
    if content.startswith(b"%PDF-"):
        return PDF
    try:
        return OTHER if b"\x00" in content else _text_of(content)
    except UnicodeDecodeError:
        return OTHER


def _text_of(content: bytes) -> str:
    content.decode()
    return TEXT


def with_found_files(where: str, item: Item, folder: Path | None) -> Item:
    """The item, with what it names found; itself where it names nothing."""
    if not names_a_file(item.input):
        return item
    return item.model_copy(update={"input": _Finding(where, folder).found(item.input, "input")})


class _Finding:
    """One item whose files are looked for."""

    def __init__(self, where: str, folder: Path | None) -> None:
        self._where = where
        self._folder = folder
        self._count = 0

    def found(self, value: Any, place: str) -> Any:
        if isinstance(value, dict):
            if value.keys() == {MARK}:
                return self._file(value[MARK], place)
            return {name: self.found(part, f"{place}.{name}") for name, part in value.items()}
        if isinstance(value, list):
            return [self.found(part, f"{place}.{index}") for index, part in enumerate(value)]
        return value

    def _file(self, named: Any, place: str) -> FoundFile:
        self._count += 1
        if self._count > MOST_FILES:
            raise self._refusal(place, named, f"is one of more than {MOST_FILES:,} files; give fewer to one sample")
        if not isinstance(named, str) or not named:
            raise self._refusal(place, named, f'is no path; write {{"{MARK}": "pictures/a.png"}}')
        path = self._path(named, place)
        try:
            content = read_bounded(path)
        except OSError as error:
            raise self._refusal(place, named, f"cannot be read ({error.strerror}); let this process read it") from None
        if content is None:
            raise self._refusal(place, named, f"has more than {LARGEST_FILE_MB} MB; make it smaller")
        reference = FileReference(hashlib.sha256(content).hexdigest(), media_type_of(content), len(content))
        return FoundFile(reference, path)

    def _path(self, named: str, place: str) -> Path:
        if self._folder is None:
            fix = (
                "give the dataset as a file in the folder of its files; a worker reads those of inline items in"
                " RATCHET_DATA_DIR, and objects in S3 name none"
            )
            raise self._refusal(place, named, f"lies beside no dataset on this machine; {fix}")
        root = self._folder.resolve()
        try:
            path = (root / named).resolve()
            inside, there = path.is_relative_to(root), path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, NUL, links in a circle
            raise self._refusal(place, named, "is not a usable path; name a file in the dataset's folder") from None
        if not inside:
            raise self._refusal(place, named, "leads out of the dataset's folder; name a file in it or below")
        if not there:
            raise self._refusal(place, named, "is not in the dataset's folder; copy it there or correct the path")
        return path

    def _refusal(self, place: str, named: Any, wrong: str) -> DatasetError:
        unquoted = f"{self._where}: a file that it names {wrong}"
        return DatasetError(f"{self._where}: {place}: file {shown(str(named))!r} {wrong}", unquoted=unquoted)


def read_bounded(path: Path) -> bytes | None:
    """A file's content; None where it is too large."""
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE_MB * 1024 * 1024 + 1)
    return content if len(content) <= LARGEST_FILE_MB * 1024 * 1024 else None


def found_in(value: Any) -> Iterator[FoundFile | FileReference]:
    """The files of an input: those that were found, and those that were given by content hash."""
    if isinstance(value, FoundFile):
        yield value
    elif (reference := FileReference.of(value)) is not None:
        yield reference
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from found_in(part)
