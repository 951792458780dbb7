"""Documents in a folder: written beside their place, synced, and moved into it under a lock between processes.

Folders and files are opened one below the other without following symbolic links, so nothing outside the folder can be
reached, whatever somebody puts in it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ratchet.prompts.prompt_errors import StoreAway, StoreRefused

LOCK = ".lock"
UNFINISHED = ".unfinished-"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


class LocalDocuments:
    """Documents in a folder of this machine, or of a network file system with locks."""

    removes = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    async def open(cls, folder: str) -> LocalDocuments:
        return cls(await asyncio.to_thread(_made, folder))

    async def check(self, folders: list[str]) -> None:
        await asyncio.to_thread(self._check, folders)

    async def read(self, path: str) -> tuple[bytes, str] | None:
        return await asyncio.to_thread(self._read, path)

    async def create(self, path: str, content: bytes) -> bool:
        return await asyncio.to_thread(self._write, path, content, None)

    async def replace(self, path: str, content: bytes, seen: str) -> bool:
        return await asyncio.to_thread(self._write, path, content, seen)

    async def remove(self, path: str, seen: str) -> bool:
        return await asyncio.to_thread(self._remove, path, seen)

    async def files(self, folder: str) -> list[str]:
        return await asyncio.to_thread(self._files, folder)

    async def folders_with(self, child: str) -> list[str]:
        return await asyncio.to_thread(self._folders_with, child)

    async def close(self) -> None:
        pass

    def _check(self, folders: list[str]) -> None:
        for folder in folders:
            with self._opened(folder):
                pass

    def _read(self, path: str) -> tuple[bytes, str] | None:
        folder, _, file = path.rpartition("/")
        with self._opened(folder) as descriptor:
            return None if descriptor is None else self._content(descriptor, path, file)

    def _write(self, path: str, content: bytes, seen: str | None) -> bool:
        folder, _, file = path.rpartition("/")
        with self._locked(), self._opened(folder, make=True) as descriptor:
            assert descriptor is not None
            found = self._content(descriptor, path, file)
            if (None if found is None else found[1]) != seen:
                return False
            _sweep(descriptor)
            _put(descriptor, file, content)
            return True

    def _remove(self, path: str, seen: str) -> bool:
        folder, _, file = path.rpartition("/")
        with self._locked(), self._opened(folder) as descriptor:
            if descriptor is None:
                return False
            found = self._content(descriptor, path, file)
            if found is None or found[1] != seen:
                return False
            os.unlink(file, dir_fd=descriptor)
            os.fsync(descriptor)
            return True

    def _files(self, folder: str) -> list[str]:
        with self._opened(folder) as descriptor:
            if descriptor is None:
                return []
            with os.scandir(descriptor) as entries:
                return [
                    entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
                ]

    def _folders_with(self, child: str) -> list[str]:
        found = []
        for folder, children, _ in os.walk(self._folder):
            if child in children:
                found.append(Path(folder).relative_to(self._folder).as_posix())
            children[:] = [name for name in children if not name.startswith(".")]
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, over all processes; the kernel lets go of a dead one's lock."""
        with _told(self._folder, LOCK):
            lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _opened(self, folder: str, *, make: bool = False) -> Iterator[int | None]:
        """A folder by its descriptor, reached step by step; None if it does not exist."""
        descriptor = self._root()
        try:
            for segment in folder.split("/"):
                below = self._below(descriptor, folder, segment, make=make)
                if below is None:
                    os.close(descriptor)
                    descriptor = -1
                    break
                os.close(descriptor)
                descriptor = below
            yield None if descriptor == -1 else descriptor
        finally:
            if descriptor != -1:
                os.close(descriptor)

    def _root(self) -> int:
        try:
            return os.open(self._folder, _FOLDER)
        except OSError as error:
            raise StoreAway(f"the folder of prompts {self._folder} cannot be opened: {error.strerror}") from None

    def _below(self, parent: int, folder: str, segment: str, *, make: bool) -> int | None:
        with _told(self._folder, folder):
            try:
                return os.open(segment, _FOLDER, dir_fd=parent)
            except FileNotFoundError:
                if not make:
                    return None
            with suppress(FileExistsError):
                os.mkdir(segment, dir_fd=parent)
            os.fsync(parent)
            return os.open(segment, _FOLDER, dir_fd=parent)

    def _content(self, descriptor: int, path: str, file: str) -> tuple[bytes, str] | None:
        with _told(self._folder, path):
            try:
                # A pipe that somebody put there must not be waited for.
                opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            except FileNotFoundError:
                return None
            with open(opened, "rb") as document:
                if not stat.S_ISREG(os.fstat(opened).st_mode):
                    raise StoreRefused(f"{path} in {self._folder} is no file; remove it")
                content = document.read()
        return content, hashlib.sha256(content).hexdigest()


def _made(folder: str) -> Path:
    path = Path(folder).expanduser().resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreRefused(f"{path} cannot be a folder of prompts: {error.strerror}") from None
    return path


def _put(folder: int, file: str, content: bytes) -> None:
    """Write beside, sync, move, sync: at every moment the old document or the new one is there, whole."""
    beside = f"{UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}"
    with open(
        os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder), "wb"
    ) as new:
        new.write(content)
        new.flush()
        os.fsync(new.fileno())
    os.replace(beside, file, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _sweep(folder: int) -> None:
    """Remove what writers left behind that died; with the lock held, nobody else is writing."""
    for name in os.listdir(folder):
        if name.startswith(UNFINISHED):
            os.unlink(name, dir_fd=folder)


@contextmanager
def _told(folder: Path, path: str) -> Iterator[None]:
    """Errors of the system, as errors of this store."""
    try:
        yield
    except OSError as error:
        if error.errno in _LINK_IN_THE_WAY:
            raise StoreRefused(
                f"{path} in {folder} leads through a symbolic link, or through what is no folder; "
                "remove it, links are not followed"
            ) from None
        raise StoreAway(f"{path} in {folder} cannot be reached: {error.strerror}") from None
