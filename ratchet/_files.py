"""Files that samples and factors name: `{"$file": "pictures/a.png"}` as written, a reference by content once it was taken in.

A reference is data: `{"$file": "sha256:…", "type": "image/png", "bytes": 4711}`. The bytes are in the store.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MARK: Final = "$file"
_SHA256: Final = "sha256:"
IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What browsers and chat models show, and what holds no script."""
PDF: Final = "application/pdf"
TEXT: Final = "text/plain"

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file by its content."""

    digest: str
    """sha256, in hex."""
    media_type: str
    size: int
    """Bytes."""

    def as_json(self) -> dict[str, Any]:
        """Write it as samples have it."""
        return {MARK: f"{_SHA256}{self.digest}", "type": self.media_type, "bytes": self.size}

    @classmethod
    def of(cls, value: Any) -> FileReference | None:
        """Read one; None where the value is something else."""
        if not isinstance(value, Mapping) or value.keys() != {MARK, "type", "bytes"}:
            return None
        named, media_type, size = value[MARK], value["type"], value["bytes"]
        if not isinstance(named, str) or not isinstance(media_type, str) or not isinstance(size, int):
            return None
        digest = named.removeprefix(_SHA256)
        is_hash = named.startswith(_SHA256) and len(digest) == 64 and not digest.strip("0123456789abcdef")
        return cls(digest, media_type, size) if is_hash else None


@dataclass(frozen=True, slots=True)
class File:
    """A file of a sample or a factor, as a target reads it."""

    type: str
    """Its media type, told by its content: `image/png`."""
    content: bytes

    def read(self) -> bytes:
        """Return its bytes."""
        return self.content


def names_a_file(value: Any) -> bool:
    """Say whether a value names a file by its path."""
    if isinstance(value, dict):
        return value.keys() == {MARK} or any(map(names_a_file, value.values()))
    return isinstance(value, list) and any(map(names_a_file, value))


def references_in(value: Any) -> Iterator[FileReference]:
    """Find the files that a value names, in their order."""
    if type(value) in _SCALARS:  # most values, of each answer: asking what else they might be takes longer
        return
    reference = FileReference.of(value)
    if reference is not None:
        yield reference
    elif isinstance(value, list | tuple | Mapping):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from references_in(part)


def with_files(value: Any, put: Callable[[FileReference], Any]) -> Any:
    """Copy a value, with something else in the place of each file."""
    reference = FileReference.of(value)
    if reference is not None:
        return put(reference)
    if isinstance(value, Mapping):
        return {name: with_files(part, put) for name, part in value.items()}
    return [with_files(part, put) for part in value] if isinstance(value, list | tuple) else value


def with_opened_files(configuration: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    """Copy a configuration, with a `File` in the place of each that is here; `files` has contents in base64 by their hashes."""

    def opened(reference: FileReference) -> Any:
        content = files.get(reference.digest)
        return reference.as_json() if content is None else File(reference.media_type, b64decode(content))

    return {name: with_files(value, opened) if any(references_in(value)) else value for name, value in configuration.items()}


def data_url(media_type: str, content: bytes) -> str:
    """Write a file as a URL that holds it."""
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def file_at(path: str, given: Any, files: Mapping[str, str]) -> File:
    """Read the file at a path such as `pages.0` of an input; `files` has contents in base64 by their hashes."""
    value = given
    for step in path.split(".") if path else ():
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            raise KeyError(f"the input has no {path!r}")
    reference = FileReference.of(value)
    if reference is None:
        raise KeyError(f"{path!r} of the input is no file")
    if reference.digest not in files:
        raise KeyError(f"the content of {path!r} is not here; it is given to targets")
    return File(reference.media_type, b64decode(files[reference.digest]))
