"""Which calls have begun, noted just before each of them: whoever goes on after a kill knows which were paid for in vain.

Every attempt at a shard has a small file of its own. What `write` has put there outlives any process of the machine, without
waiting for a disk; it would not outlive the machine itself, and then what the last heartbeat said is the best that is known.
Where the disk is full, the notes go on in a folder in memory. The files hold numbers, no names and no texts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger("evaluation")

SECONDS_UNTIL_FORGOTTEN = 60.0
"""An attempt that is over is told to the server within this time; until then another one may still be begun."""

SECONDS_UNTIL_STALE = 7 * 24 * 3600.0
MOST_ATTEMPTS_READ = 1000
CALLS = "calls"
"""The heartbeat detail that is ours."""


class CallJournal:
    """The notes of all workers that share a folder."""

    def __init__(self, folder: Path | None = None, *, of_all_workers: bool = False) -> None:
        """`of_all_workers` says that no worker of the same servers keeps its notes elsewhere."""
        self.folder = folder or _private_folder()
        self.of_all_workers = of_all_workers
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place = _name_of(self.folder)
        self.spare = _spare_folder(self.place)
        self._over: dict[str, tuple[float, int]] = {}
        self._forget_stale()

    def of_shard(self, key: str, attempt: int, heard: Sequence[Any] = ()) -> ShardCalls:
        """The notes of one attempt; `key` is the same for all attempts at a shard, `heard` what the last heartbeat said."""
        return ShardCalls(self, _name_of_shard(key), attempt, heard)

    def of_silent_shard(self, key: str, heard: Sequence[Any] = ()) -> ShardCalls | None:
        """All notes of a shard that nobody goes on with; None when nothing is known of it."""
        name = _name_of_shard(key)
        last = max(self._attempts(name), default=0)
        return ShardCalls(self, name, max(last, 1) + 1, heard) if last or _heard(heard) is not None else None

    def _attempts(self, name: str) -> Iterator[int]:
        for folder in (self.folder, self.spare):
            for path in folder.glob(f"{name}.*") if folder is not None else ():
                if (number := path.name.removeprefix(f"{name}.")).isdecimal():
                    yield int(number)

    def path(self, name: str, attempt: int) -> Path:
        return self.folder / f"{name}.{attempt}"

    def path_in_memory(self, name: str, attempt: int) -> Path | None:
        """Where notes go on when the disk has no room for them; None where the machine has no such folder."""
        return None if self.spare is None else self.spare / f"{name}.{attempt}"

    def read(self, name: str, attempt: int) -> bytes | None:
        """The notes of an attempt, of the disk first; None when there are none."""
        parts = []
        for path in (self.path(name, attempt), self.path_in_memory(name, attempt)):
            with contextlib.suppress(FileNotFoundError):
                if path is not None:
                    written = path.read_bytes()
                    parts.append(written[: written.rfind(b"\n") + 1])  # a full disk may have cut the last line
        return b"".join(parts) if parts else None

    def over(self, name: str, attempts: int) -> None:
        """A shard is done. Its notes go a little later: its server may not know yet, and ask somebody to do it again."""
        now = time.monotonic()
        for known, (since, count) in list(self._over.items()):
            if now - since > SECONDS_UNTIL_FORGOTTEN:
                del self._over[known]
                self._forget(known, count)
        self._over[name] = (now, attempts)

    def close(self) -> None:
        """Everything that was done is told."""
        for name, (_, attempts) in self._over.items():
            self._forget(name, attempts)
        self._over.clear()
        if self.spare is not None:
            with contextlib.suppress(OSError):  # there is none, or the notes of others are in it
                self.spare.rmdir()

    def _forget(self, name: str, attempts: int) -> None:
        for attempt in range(max(1, attempts - MOST_ATTEMPTS_READ), attempts + 1):
            for path in (self.path(name, attempt), self.path_in_memory(name, attempt)):
                with contextlib.suppress(OSError):
                    if path is not None:
                        path.unlink(missing_ok=True)

    def _forget_stale(self) -> None:
        """Notes of shards that nobody took up again."""
        before = time.time() - SECONDS_UNTIL_STALE
        for folder in (self.folder, self.spare):
            with contextlib.suppress(OSError):
                for entry in os.scandir(folder) if folder is not None else ():
                    with contextlib.suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_mtime < before and entry.name != _PLACE:
                            os.unlink(entry.path)


class ShardCalls:
    """The calls of one attempt at a shard, and what the attempts before it left."""

    def __init__(self, journal: CallJournal, name: str, attempt: int, heard: Sequence[Any]) -> None:
        self._journal = journal
        self._name = name
        self._attempt = attempt
        self._heard = _heard(heard)
        self._file: int | None = None
        self._writing = threading.Lock()
        self._is_over = False
        self._in_memory = False
        self._is_exact = attempt == 1
        self._is_read = attempt == 1
        self._mine: set[int] = set()
        self._without_answer: set[int] = set()
        self._before: dict[int, set[int]] = {}
        self._elsewhere = 0
        self._left: int | None = None
        self._killed, self._in_vain = _number(self._heard or {}, "killed"), _number(self._heard or {}, "in_vain")

    def survived(self, unfinished: int, left: int, *, scores_kept: bool) -> tuple[int, int]:
        """How many attempts at the shard died with calls under way, and how many of these in a row left nothing in the store.

        `unfinished` is the number of the attempt before, if that never ended; `left` is how much there is to do now. One that
        had called nobody yet was killed by somebody else. What is not known is taken for a death in the middle of a call.
        """
        if self._left is None:
            if unfinished and (scores_kept or not self._knows(unfinished) or self._before.get(unfinished)):
                stood_still = self._heard is None or self._heard.get("left") in (None, left)
                self._killed += 1
                self._in_vain = self._in_vain + 1 if stood_still else 0
            self._left = left
        return self._killed, self._in_vain

    def _knows(self, attempt: int) -> bool:
        """Whether its notes would be here."""
        noted_here = self._heard is None or self._heard.get("place") == self._journal.place
        return self._is_exact and noted_here and attempt < self._attempt

    def goes_on(self, without_answer: Collection[int], side_by_side: int) -> None:
        """This attempt begins with so many pairs without an answer, of which so many may be in flight at once."""
        self._without_answer = set(without_answer)
        if self._is_read:
            return
        self._is_read = True
        if self._heard is not None and self._heard.get("place") != self._journal.place:
            in_flight = min(_number(self._heard, "in_flight"), len(self._without_answer))
            self._elsewhere = _number(self._heard, "lost") + in_flight
            return
        self._before = dict(self._read())
        self._is_exact = bool(self._before) or self._heard is not None or self._journal.of_all_workers
        if not self._is_exact:
            self._elsewhere = min(side_by_side, len(self._without_answer))

    def begins(self, pair: int) -> None:
        """Note a call that is about to be made. For any thread."""
        self._mine.add(pair)
        self._write(b"%d\n" % pair)

    def cost_nothing(self, pair: int) -> None:
        """It was refused: whoever makes it again pays once."""
        if pair in self._mine:
            self._mine.discard(pair)
            self._write(b"-%d\n" % pair)

    def kept(self, pair: int) -> None:
        """What it gave is in the store, and more calls follow before there is an answer: whoever goes on needs no other."""
        self.cost_nothing(pair)

    def answered(self, pair: int) -> None:
        """Its answer is in the store."""
        self._without_answer.discard(pair)

    @property
    def left_open(self) -> dict[int, int] | None:
        """By attempt, how many calls were begun whose answers were not there when this one began; None when nobody knows."""
        if not self._is_exact:
            return None
        return {attempt: len(begun & self._without_answer) for attempt, begun in self._before.items()}

    @property
    def lost(self) -> int:
        """Calls that were begun, by whichever attempt, and have no answer to show for it."""
        times = Counter[int]()
        for begun in [*self._before.values(), set(self._mine)]:
            times.update(begun)
        return self._elsewhere + times.total() - sum(1 for pair in times if pair not in self._without_answer)

    def told(self) -> Mapping[str, Any]:
        """What an attempt on another machine has to know."""
        in_flight = len(self._mine & self._without_answer)
        told = {"place": self._journal.place, "in_flight": in_flight, "lost": self.lost - in_flight}
        if self._left is not None:
            told |= {"killed": self._killed, "in_vain": self._in_vain, "left": self._left}
        return {CALLS: told}

    def over(self) -> None:
        """The shard is done."""
        if self._mine or self._before:
            self._journal.over(self._name, self._attempt)

    def close(self) -> None:
        """Nothing is noted any more; a thread that was abandoned may still try to."""
        with self._writing:
            self._is_over = True
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _write(self, line: bytes) -> None:
        with self._writing:
            if self._is_over:
                return
            error = self._written(line, self._journal.path(self._name, self._attempt))
            if error is not None and not self._in_memory:
                self._turn_to_memory()
                path = self._journal.path_in_memory(self._name, self._attempt)
                error = error if path is None else self._written(line, path)
            if error is not None:  # no room anywhere costs the exact number, never a call
                log.warning("calls cannot be noted", folder=str(self._journal.folder), error=str(error))

    def _written(self, line: bytes, path: Path) -> OSError | None:
        """Append a line to the open file, or to `path`; return what went wrong."""
        try:
            if self._file is None:
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.write(self._file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            return error
        return None

    def _turn_to_memory(self) -> None:
        self._in_memory = True
        if self._journal.spare is not None:
            with contextlib.suppress(OSError):
                self._journal.spare.mkdir(mode=0o700, exist_ok=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> Iterator[tuple[int, set[int]]]:
        for attempt in range(max(1, self._attempt - MOST_ATTEMPTS_READ), self._attempt):
            notes = self._journal.read(self._name, attempt)
            if notes is not None:
                yield attempt, _begun(notes)


def _name_of_shard(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _begun(notes: bytes) -> set[int]:
    begun: set[int] = set()
    for line in notes.splitlines():
        number = int(line) if line.removeprefix(b"-").isdigit() else None
        if number is None:
            continue
        if line.startswith(b"-"):
            begun.discard(-number)
        else:
            begun.add(number)
    return begun


def _heard(details: Sequence[Any]) -> Mapping[str, Any] | None:
    """Our part of what the last heartbeat said; anybody may have said anything."""
    for detail in details:
        if isinstance(detail, Mapping) and isinstance(detail.get(CALLS), Mapping):
            ours: Mapping[str, Any] = detail[CALLS]
            return ours
    return None


def _number(said: Mapping[str, Any], name: str) -> int:
    number = said.get(name)
    return number if isinstance(number, int) and number > 0 else 0


_PLACE = "place"
_MEMORY = Path("/dev/shm")  # noqa: S108 - only a folder in it that nobody else can read is used
"""Files there outlive processes, and need no disk."""


def _name_of(folder: Path) -> str:
    """A name for the folder that no other folder has, on whichever machine."""
    path = folder / _PLACE
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    draft = folder / f"{_PLACE}.{uuid.uuid4().hex}"
    draft.write_text(uuid.uuid4().hex)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    return path.read_text()


def _private_folder() -> Path:
    """A folder that only this user can write, shared by this user's workers."""
    folder = _of_this_user(Path(tempfile.gettempdir()))
    return folder if folder is not None else Path(tempfile.mkdtemp(prefix="ratchet-calls-"))


def _spare_folder(place: str) -> Path | None:
    """The folder in memory that belongs to the folder of this name."""
    folder = _of_this_user(_MEMORY) if _MEMORY.is_dir() else None
    return None if folder is None else folder / place


def _of_this_user(parent: Path) -> Path | None:
    """A folder in `parent` that nobody else can read; None when its name is taken, or there is no room."""
    folder = parent / f"ratchet-calls-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_ours = found.st_uid == os.getuid() and not found.st_mode & 0o077 and folder.is_dir() and not folder.is_symlink()
    return folder if is_ours else None
