"""What code a run may have imported for it: noted where only its user writes, when he starts the run.

Anybody who reaches Temporal may start a run, and write into it whatever he likes. What a memo, a header or a payload says is
therefore shown at most; what `dev`, `watch` and `retry` import is read from these notes alone. A note is a file of the user's
own (0600): for embedded servers in their home, where all that concerns them is; for servers named by the environment in the
user's state folder, because the home there is only where a command happened to be started, and a run may be watched from
anywhere. A note holds the hash of every file that importing the plug-ins loaded, and files are compared before any is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

import pydantic

from clients.checks.plugin_inspection import first_changed, inspect_plugins, modules_of, plugin_uses
from clients.checks.plugin_process import PluginUse
from clients.embedded.home import Home
from clients.private_files import make_private_folder, open_private
from clients.runs.identity import plugin_task_queue
from clients.runs.lookup import KnownRun, first_execution, memo_of
from clients.runs.service.servers import Servers
from clients.runs.service.workers import PluginCode
from clients.settings import client_settings
from ratchet._frozen import Payload
from ratchet._text.shortening import shorten
from ratchet._text.visible import one_line
from workflows.model.spec.request import OptimizationRequest

LARGEST_NOTE: Final = 8_000_000
LONGEST_HOST: Final = 100


class RunCode(Payload):
    """The plug-ins of a spec, as they were when its run was started."""

    spec: str
    directory: str
    task_queue: str
    """Named by the hash of the code: who serves it answers with exactly this code."""
    uses: tuple[PluginUse, ...]
    files: dict[str, str]
    """By path: the hash of each file that importing the plug-ins loaded."""

    @property
    def plugins(self) -> PluginCode:
        """What a worker is told."""
        return PluginCode(Path(self.directory), modules_of(self.uses), self.task_queue)


class CodeNote(Payload):
    """A run that was started, or joined, from here."""

    run_id: str
    execution: str
    """The id that the server gave its first execution: another run by the same name has another."""
    code: RunCode


class CodeNotes:
    """The notes of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, note: CodeNote) -> None:
        """Note it for good; a reader never sees half of it."""
        make_private_folder(self.folder)
        place = self._place(note.run_id)
        draft = place.with_suffix(f".{os.getpid()}.draft")
        with open_private(draft, "w", encoding="utf-8") as file:
            file.write(note.model_dump_json(indent=1))
        draft.replace(place)

    def read(self, run_id: str) -> CodeNote | None:
        """What was noted of a run. A file that somebody else could have written is none of ours."""
        note = _read(self._place(run_id))
        return note if note is not None and note.run_id == run_id else None

    def forget(self, run_id: str) -> None:
        """Take the note of a run away."""
        with contextlib.suppress(OSError):
            self._place(run_id).unlink()

    def all(self, but: Container[tuple[str, int]] = ()) -> Iterator[tuple[tuple[str, int], CodeNote]]:
        """Every note that is ours, with what tells it from any other and from its own earlier state; `but` is not even read."""
        for place in sorted(self.folder.glob("*.json")):
            with contextlib.suppress(FileNotFoundError):
                state = place.name, place.lstat().st_mtime_ns
                if state not in but and (note := _read(place)) is not None:
                    yield state, note

    def _place(self, run_id: str) -> Path:
        return self.folder / f"{hashlib.sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def notes_for(servers: Servers, home: Path) -> CodeNotes:
    """Where the code of runs on these servers is noted."""
    if servers.embedded:
        return CodeNotes(Home.at(home).code)
    named = hashlib.sha256(f"{servers.temporal_address}/{servers.namespace}".encode()).hexdigest()[:16]
    return CodeNotes(_state_folder(home) / named)


def _state_folder(home: Path) -> Path:
    given = client_settings().state_home
    if given is not None and given.is_absolute():
        return given / "ratchet" / "code"
    try:
        return Path.home() / ".local" / "state" / "ratchet" / "code"
    except RuntimeError:  # a user without a home
        return Home.at(home).code


def _read(place: Path) -> CodeNote | None:
    """A private file of ours in a private folder of ours: not a link, and not what a repository brought along."""
    try:
        if not _is_private(place.parent.lstat(), stat.S_ISDIR):
            return None
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not _is_private(os.fstat(descriptor), stat.S_ISREG):
                return None
            return CodeNote.model_validate_json(file.read(LARGEST_NOTE))
    except (OSError, pydantic.ValidationError):
        return None


def _is_private(found: os.stat_result, is_kind: object) -> bool:
    assert callable(is_kind)
    return bool(is_kind(found.st_mode)) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


async def note_code(servers: Servers, home: Path, run: KnownRun, code: RunCode) -> None:
    """Note that this run is served from here."""
    execution = first_execution(run)
    if execution is not None:
        note = CodeNote(run_id=run.run_id, execution=execution, code=code)
        await asyncio.to_thread(notes_for(servers, home).write, note)


class CodeMissing(Exception):
    """Why nobody serves a run's plug-ins from here, in a sentence."""


async def code_of(notes: CodeNotes, run: KnownRun) -> PluginCode | None:
    """What serves an open run's plug-ins; None where nothing is noted of it, which most runs need not."""
    note = await asyncio.to_thread(_note_of, notes, run)
    if note is None:
        return None
    await _refuse_changed(note.code, run.run_id)
    return note.code.plugins


def is_noted(notes: CodeNotes, run: KnownRun) -> bool:
    """Whether this very run was started, or joined, from here."""
    return _note_of(notes, run) is not None


def _note_of(notes: CodeNotes, run: KnownRun) -> CodeNote | None:
    note = notes.read(run.run_id)
    return note if note is not None and note.execution == first_execution(run) else None


async def code_to_retry(notes: CodeNotes, run_id: str, request: OptimizationRequest, task_queue: str) -> RunCode | None:
    """The code of a finished run as it is now, perhaps mended; its stored spec must name what was noted, no more."""
    note = await asyncio.to_thread(notes.read, run_id)
    if note is None or note.code.uses != tuple(plugin_uses(request)):
        return None
    if note.code.task_queue != request.execution.evaluation_task_queue:
        return None
    inspection = await inspect_plugins(note.code.uses, Path(note.code.directory))
    if inspection.problems:
        raise CodeMissing(f"{run_id} cannot be retried: {next(iter(inspection.problems.values()))}")
    queue = plugin_task_queue(task_queue, inspection.code_hash)
    return note.code.model_copy(update={"task_queue": queue, "files": inspection.files})


async def _refuse_changed(code: RunCode, run_id: str) -> None:
    """Raise unless the files are as they were; only then are they imported, to see that nothing new comes along with them."""
    changed = await asyncio.to_thread(first_changed, code.files)
    if changed is None:
        inspection = await inspect_plugins(code.uses, Path(code.directory))
        if inspection.problems:
            raise CodeMissing(f"{run_id} is not served: {next(iter(inspection.problems.values()))}")
        if code.task_queue.endswith(f"-{inspection.code_hash[:12]}"):
            return
    raise CodeMissing(told_changed(run_id, code, changed))


def told_changed(run_id: str, code: RunCode, path: str | None) -> str:
    """What to do about it."""
    where = "" if path is None else f" ({Path(path).name})"
    return (
        f"the code beside {code.spec} has changed since {run_id} began{where}; "
        f"put it back to let the run go on, or `ratchet cancel {run_id}` and run the spec again"
    )


async def told_foreign(run: KnownRun) -> str:
    """Why a run that needs code is shown, and not served."""
    memo = await memo_of(run)
    if memo.get("program"):
        return f"{run.run_id} calls functions of the program that started it: that program serves them, run it again"
    host = memo.get("host")
    of = f" (on {shorten(one_line(host), LONGEST_HOST)}, it says)" if isinstance(host, str) and host else ""
    return (
        f"{run.run_id} was not started from here{of}: it is shown, and no code is imported for it, whatever it says of itself; "
        "whoever started it serves it, with `ratchet run` of its spec"
    )


async def needs_code(run: KnownRun) -> bool:
    """Whether a run says of itself that it has plug-ins of its own. That is enough to tell a person, and for nothing else."""
    memo = await memo_of(run)
    return bool(memo.get("plugins") or memo.get("program"))


def why_unserved(notes: CodeNotes, run: KnownRun) -> str | None:
    """What keeps the plug-ins of a run noted here from being served, as far as its files tell; nothing is imported."""
    note = _note_of(notes, run)
    changed = None if note is None else first_changed(note.code.files)
    return None if note is None or changed is None else told_changed(run.run_id, note.code, changed)
