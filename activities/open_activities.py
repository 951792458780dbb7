"""Which activities the worker processes of a machine have open. What a killed one had open is given up at once, by another.

Temporal notices a lost worker when no heartbeat has come for seconds. Whoever shares its machine can know sooner: a worker
holds a lock on a file of its own as long as it lives, also while it is stopped, and beside that file stands one for each
activity that it has open, with its task token. A token is good for one attempt, so nobody's later attempt is ended by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

log = structlog.get_logger("worker")

SECONDS_BETWEEN_LOOKS: Final = 1.0
SECONDS_UNTIL_STALE: Final = 7 * 24 * 3600.0
WORKER_GONE: Final = "WorkerGone"
"""The type of the error that an attempt ends with whose worker is gone."""

_LOCKED: Final = ".worker"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class GoneWorker:
    """A worker that was killed, with what it had open."""

    name: str
    tokens: dict[Path, bytes]


class OpenActivities(Interceptor):
    """Notes what this process has open, and finds what processes that are gone had."""

    def __init__(self, folder: Path, servers: str) -> None:
        """`servers` names the Temporal namespace that the tokens are for; workers of others may share the folder."""
        self._folder = folder
        self._numbers = itertools.count()
        self._name = uuid.uuid4().hex
        self._owner = {"machine": _machine(), "servers": servers}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Noted(next, self)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Hold the lock that says that this process lives."""
        draft = self._folder / f"{self._name}.draft"
        with open(draft, "x", opener=_privately) as held:
            json.dump(self._owner, held)
            held.flush()
            fcntl.flock(held, fcntl.LOCK_EX)  # before anybody can find it
            path = draft.rename(self._folder / f"{self._name}{_LOCKED}")
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def noted(self, token: bytes) -> Iterator[None]:
        """Note an activity as open. Where there is no room for that, its heartbeats must do."""
        path = self._folder / f"{self._name}.{next(self._numbers)}"
        with contextlib.suppress(OSError), open(path, "xb", opener=_privately) as note:
            note.write(b64encode(token))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    @contextmanager
    def gone(self) -> Iterator[list[GoneWorker]]:
        """Workers of the same servers that are gone. Nobody else finds them until the block is left."""
        with contextlib.ExitStack() as locks:
            found: list[GoneWorker] = []
            with contextlib.suppress(OSError):
                for path in sorted(self._folder.glob(f"*{_LOCKED}")):
                    name = path.name.removesuffix(_LOCKED)
                    if name != self._name and self._is_gone(path, locks):
                        notes = [note for note in self._folder.glob(f"{name}.*") if note != path]
                        found.append(GoneWorker(name, {note: _read(note) for note in notes}))
            yield found

    def _is_gone(self, path: Path, locks: contextlib.ExitStack) -> bool:
        """Whether nobody holds the lock. On another machine a lock says nothing."""
        try:
            held = locks.enter_context(path.open())
            if json.load(held) != self._owner:
                if time.time() - path.stat().st_mtime > SECONDS_UNTIL_STALE:
                    path.unlink()
                return False
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, ValueError):
            return False
        return True

    def forget(self, worker: GoneWorker) -> None:
        """All that it had open is given up."""
        for path in [*worker.tokens, self._folder / f"{worker.name}{_LOCKED}"]:
            with contextlib.suppress(OSError):
                path.unlink()


class _Noted(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, open_activities: OpenActivities) -> None:
        super().__init__(next)
        self._open_activities = open_activities

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        if info.is_local or not info.heartbeat_timeout:
            return await self.next.execute_activity(input)
        with self._open_activities.noted(info.task_token):
            return await self.next.execute_activity(input)


@asynccontextmanager
async def giving_up_for_others(client: Client, open_activities: OpenActivities) -> AsyncIterator[None]:
    """Say that this process lives, and look after those that do not any more. Only where locks can be trusted."""
    if not _machine():
        yield
        return
    with open_activities.alive():
        looking = asyncio.create_task(_look(client, open_activities))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})


async def _look(client: Client, open_activities: OpenActivities) -> None:
    while True:
        with open_activities.gone() as found:
            for worker in found:
                if await _given_up(client, worker):
                    open_activities.forget(worker)
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


async def _given_up(client: Client, worker: GoneWorker) -> bool:
    """End each attempt that it had open; whether the server knows of all of them now."""
    known = True
    for token in filter(None, worker.tokens.values()):
        error = ApplicationError("the worker that was at it is gone", type=WORKER_GONE)
        try:
            await client.get_async_activity_handle(task_token=token).fail(error)
        except RPCError as refused:
            known = known and refused.status is RPCStatusCode.NOT_FOUND  # it was ended by somebody else
    log.info("a worker of this machine is gone", had_open=len(worker.tokens), given_up=known)
    return known


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(note: Path) -> bytes:
    """The token; nothing where it was being written when its worker was killed."""
    try:
        return b64decode(note.read_bytes(), validate=True)
    except (OSError, ValueError):
        return b""


def _machine() -> str:
    """A name for the running system, which all of its containers share; none where nobody tells."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
