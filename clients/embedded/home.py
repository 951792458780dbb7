"""What lies where in the home of an embedded stack, and the locks and files by which its processes agree.

The kernel arbitrates, not pid files: a `flock` goes away with its holder, also on kill -9.

- `participants.lock`: shared, held by everybody who uses the stack; exclusive, held by a supervisor that found nobody
  left and is shutting down, so that whoever comes next waits for it to finish.
- `supervisor.lock`: taken by the participant that starts a supervisor and inherited by that supervisor.
- `temporal.lock`, `postgres.lock`: inherited by the server and all its children, so that no second server ever opens
  the same data.
- `workers.lock`: shared, held by every worker of a command, which may outlive that command by seconds; the supervisor waits
  for it.
- `code/*.lock`: shared, held by every command that serves the code of a run; exclusive only to look whether anybody does.
- `leaving.lock`: held while a participant finds out whether it was the last.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import random
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clients.private_files import FILE_MODE, close_to_others, make_private_folder, open_private, tighten

NAME = ".ratchet"
DATABASE = "ratchet"
NAMESPACE = "default"
LOOPBACK = "127.0.0.1"


class StackError(RuntimeError):
    """The embedded stack could not be started, joined or left; the message says what to do."""


@dataclass(frozen=True)
class Home:
    path: Path

    @classmethod
    def at(cls, path: Path) -> "Home":
        return cls(path.resolve())

    @property
    def stack(self) -> Path:
        return self.path / "stack"

    @property
    def participants_lock(self) -> Path:
        return self.stack / "participants.lock"

    @property
    def workers_lock(self) -> Path:
        return self.stack / "workers.lock"

    @property
    def calls(self) -> Path:
        """Where workers note the calls that they begin."""
        return self.path / "calls"

    @property
    def supervisor_lock(self) -> Path:
        return self.stack / "supervisor.lock"

    @property
    def leaving_lock(self) -> Path:
        return self.stack / "leaving.lock"

    def server_lock(self, server: str) -> Path:
        return self.stack / f"{server}.lock"

    @property
    def state(self) -> Path:
        return self.stack / "state.json"

    @property
    def previous_state(self) -> Path:
        return self.stack / "previous.json"

    @property
    def ports(self) -> Path:
        return self.stack / "ports.json"

    @property
    def postgres_password(self) -> Path:
        return self.stack / "postgres.password"

    @property
    def allowed(self) -> Path:
        """What this home's own commands allowed specs to name, beyond the operator's lists in the environment."""
        return self.path / "allowed.json"

    @property
    def code(self) -> Path:
        """What code the runs that were started from this home need, which nothing but these notes may name."""
        return self.path / "code"

    @property
    def taking_up_lock(self) -> Path:
        """Held by whoever serves the code of all runs that are noted here, also of those that come."""
        return self.code / "taking-up.lock"

    def code_lock(self, task_queue: str) -> Path:
        """Held by every command that serves this code."""
        return self.code / f"{hashlib.sha256(task_queue.encode()).hexdigest()[:32]}.lock"

    @property
    def serve_token(self) -> Path:
        """What requests to the page and the HTTP API of this home must bring."""
        return self.path / "serve.token"

    @property
    def postgres_data(self) -> Path:
        return self.path / "postgres"

    @property
    def temporal_database(self) -> Path:
        return self.path / "temporal.db"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, server: str) -> Path:
        return self.logs / f"{server}.log"

    def make(self) -> None:
        """Make what is missing, and take all of it from everybody but its owner, also what an earlier version left open."""
        self.make_logs()
        make_private_folder(self.stack)
        tighten(self.stack)
        for file in self.path.glob("temporal.db*"):
            close_to_others(file, FILE_MODE)

    def make_logs(self) -> None:
        """Make the home and the folder of its logs.

        A home that was there before and bears a name of its own may hold other things: only what is ours in it is closed.
        """
        if not self.path.exists() or self.path.name == NAME:
            make_private_folder(self.path)
            if not (ignored := self.path / ".gitignore").exists():  # data, and a password
                with open_private(ignored, "w") as file:
                    file.write("*\n")
        make_private_folder(self.logs)
        tighten(self.logs)


def nearest_home(start: Path) -> Path:
    """The home in the directory, or in the nearest one above that has one of this user's own; else the one to be made here.

    Nobody else's is taken: what a home notes is code that is imported.
    """
    for folder in (start, *start.parents):
        found = folder / NAME
        with contextlib.suppress(OSError):
            if found.is_dir() and found.stat().st_uid == os.getuid():
                return found
    return start / NAME


@dataclass(frozen=True)
class ServerState:
    port: int
    pid: int | None = None
    failures: int = 0


@dataclass(frozen=True)
class SupervisorState:
    supervisor_pid: int
    time_skipping: bool
    ui_port: int | None
    temporal: ServerState
    postgres: ServerState

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "SupervisorState | None":
        fields = read_json(path)
        if fields is None:
            return None
        try:
            temporal, postgres = ServerState(**fields.pop("temporal")), ServerState(**fields.pop("postgres"))
            return cls(**fields, temporal=temporal, postgres=postgres)
        except (KeyError, TypeError):
            return None  # written by another version of ours


def write_json(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_suffix(f".{os.getpid()}.draft")
    with open_private(draft, "w") as writing:
        json.dump(content, writing, indent=1)
    draft.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None


def open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Whether somebody holds this lock exclusively."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def is_shared(path: Path) -> bool:
    """Whether somebody holds this lock at all."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held_shared(path: Path) -> Iterator[None]:
    """Hold a lock together with others until the block is left; child processes do not inherit it."""
    make_private_folder(path.parent)
    descriptor = open_lock(path)
    try:
        while not try_lock(descriptor, shared=True):  # somebody looks whether anybody holds it
            time.sleep(0.001)
        yield
    finally:
        os.close(descriptor)


def hold(path: Path) -> None:
    """Share a lock until this process ends. Unlike an flock it does not pass to processes that a plug-in forks."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.lockf(descriptor, fcntl.LOCK_SH)


def is_held(path: Path) -> bool:
    """Whether any process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen()
        except OSError:
            return False
    return True


def free_port(taken: set[int]) -> int:
    """A port below the ephemeral range, so that no outgoing connection occupies it while a server restarts."""
    choices = random.SystemRandom()
    for _ in range(200):
        port = choices.randrange(20_000, 32_000)
        if port not in taken and port_is_free(port):
            return port
    raise StackError("no free port between 20000 and 32000 on 127.0.0.1")


def last_lines(path: Path, count: int = 12) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 8_192))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return "(no log)"
    return "\n".join(f"  | {line}" for line in lines[-count:]) or "(empty)"
