"""Where files lie that samples and factors name: a folder of this machine, or a prefix in S3. No link and no dots lead out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

from activities.datasets.dataset_errors import DatasetError
from activities.datasets.objects import object_client, object_content

LARGEST_FILE_MB: Final = 20
LONGEST_KEY: Final = 1024
"""Bytes of a key in S3."""

Refusal = Callable[[str], None]
"""Raises ValueError, with the reason, unless the operator lets an object be read."""


class Unusable(ValueError):
    """Why a file cannot be taken in, as it is said behind its name."""


class NamedFile(Protocol):
    """A file where it lies."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    def read(self) -> bytes:
        """Return its content. Raises Unusable where it cannot be read, or is too large."""


class Folder(Protocol):
    """Where files are looked for."""

    def file(self, named: str) -> NamedFile:
        """Find one by its path in the folder. Raises Unusable."""


@dataclass(frozen=True)
class NoFolder:
    """Nowhere: whoever names a file is told where to put it."""

    told: str

    def file(self, named: str) -> NamedFile:
        raise Unusable(self.told)


@dataclass(frozen=True)
class LocalFile:
    """A file of this machine."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST_FILE_MB * 1024 * 1024 + 1)
        except OSError as error:
            raise Unusable(f"cannot be read ({error.strerror}); let this process read it") from None
        return bounded(content)


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, with all below it."""

    path: Path
    called: str = "the dataset's folder"
    """As messages call it."""

    def file(self, named: str) -> LocalFile:
        root = self.path.resolve()
        try:
            path = (root / named).resolve()
            inside, there = path.is_relative_to(root), path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, NUL, links in a circle
            raise Unusable(f"is not a usable path; name a file in {self.called}") from None
        if not inside:
            raise Unusable(f"leads out of {self.called}; name a file in it or below")
        if not there:
            raise Unusable(f"is not in {self.called}; copy it there or correct the path")
        return LocalFile(path)


@dataclass
class ObjectFolder:
    """What has the same prefix in S3 as a dataset, fetched with one client."""

    prefix: str
    """`s3://bucket/some/folder/`, with its slash."""
    refuse: Refusal | None = None
    """None where whoever reads is the operator."""
    _client: Any = field(default=None, repr=False, compare=False)

    def file(self, named: str) -> ObjectFile:
        path = PurePosixPath(named)
        if path.is_absolute() or ".." in path.parts:
            raise Unusable("leads out of the dataset's folder; name an object beside the dataset's, or below")
        if not named.isprintable() or len(self.prefix + named) > LONGEST_KEY or not path.parts:
            raise Unusable("is not a usable path; name an object beside the dataset's")
        url = self.prefix + path.as_posix()
        try:
            if self.refuse is not None:
                self.refuse(url)
        except ValueError as error:
            raise Unusable(f"may not be read: {error}") from None
        return ObjectFile(url, self)

    def content(self, url: str) -> bytes:
        """Fetch an object of it."""
        try:
            self._client = self._client or object_client(url)
            return bounded(object_content(self._client, url, LARGEST_FILE_MB * 1024 * 1024 + 1))
        except DatasetError as error:
            raise Unusable(f"cannot be read: {str(error).removeprefix('dataset.path: ')}") from None


@dataclass(frozen=True)
class ObjectFile:
    """An object in S3."""

    url: str
    folder: ObjectFolder

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name

    def read(self) -> bytes:
        return self.folder.content(self.url)


def bounded(content: bytes) -> bytes:
    """Raise Unusable where a file has more than may be taken in."""
    if len(content) > LARGEST_FILE_MB * 1024 * 1024:
        raise Unusable(f"has more than {LARGEST_FILE_MB} MB; make it smaller")
    return content
