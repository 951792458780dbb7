"""Files that samples name: found beside their dataset, bounded, told apart by what they hold, and named by their content.

A file lies in the folder of its dataset (of an inline one, and of factors: of the spec for the command line, RATCHET_DATA_DIR
for a worker), or below.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from activities.datasets.dataset_errors import DatasetError, shown
from activities.datasets.file_folders import Folder, NamedFile, NoFolder, Unusable
from ratchet._files import IMAGES, MARK, PDF, TEXT, FileReference, names_a_file
from workflows.model.spec.dataset import Item

MOST_FILES: Final = 1000
"""Of one sample."""
NO_FOLDER: Final = NoFolder(
    "lies beside no dataset on this machine; give the dataset as a file in the folder of its files; a worker reads those of"
    " inline items in RATCHET_DATA_DIR, and a Python callable names none"
)

_BEGINNINGS: Final = {b"\x89PNG\r\n\x1a\n": IMAGES[0], b"\xff\xd8\xff": IMAGES[1], b"GIF87a": IMAGES[2], b"GIF89a": IMAGES[2]}
OTHER: Final = "application/octet-stream"


class FoundFile(dict[str, Any]):
    """A reference to a file that was found, and where; it equals the bare reference."""

    def __init__(self, reference: FileReference, place: NamedFile) -> None:
        super().__init__(reference.as_json())
        self.reference = reference
        self.place = place


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


def with_found_files(where: str, item: Item, folder: Folder | None) -> Item:
    """The item, with what it names found; itself where it names nothing."""
    if not names_a_file(item.input):
        return item
    return item.model_copy(update={"input": FileSearch(folder or NO_FOLDER, f"{where}: ").found(item.input, "input")})


class FileSearch:
    """Looks for the files that one sample, or the factors of one spec, name."""

    def __init__(self, folder: Folder, where: str = "") -> None:
        """`where` stands before every message, and is all that others are told of the place."""
        self._folder = folder
        self._where = where
        self._count = 0

    def found(self, value: Any, place: str) -> Any:
        """Copy a value, with a reference to its content in the place of each file. Raises DatasetError."""
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
        try:
            file = self._folder.file(named)
            content = file.read()
        except Unusable as error:
            raise self._refusal(place, named, str(error)) from None
        return FoundFile(FileReference(sha256(content).hexdigest(), media_type_of(content), len(content)), file)

    def _refusal(self, place: str, named: Any, wrong: str) -> DatasetError:
        unquoted = f"{self._where or f'{place}: '}a file that it names {wrong}"
        return DatasetError(f"{self._where}{place}: file {shown(str(named))!r} {wrong}", unquoted=unquoted)


def found_in(value: Any) -> Iterator[FoundFile | FileReference]:
    """The files of an input: those that were found, and those that were given by content hash."""
    if isinstance(value, FoundFile):
        yield value
    elif (reference := FileReference.of(value)) is not None:
        yield reference
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from found_in(part)
