"""Our modules as processes of their own, forked from one that has loaded what they load: that takes most of a command's time.

Each has its own working directory, environment, output and exit code, can be killed, and ends as every interpreter does.
What a command starts itself, such as its workers, it starts by `sys.executable`. For a forked one that is a small program
(`FRONT`): it has its process forked here, passes signals on, and ends as that one does; whoever kills it kills both.
Started from nothing they are where tests look at what a command loads.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ratchet._frozen import Payload, SpecPart

ROOT = Path(__file__).parents[2]
NUMBER = struct.Struct("!i")
LOADED = ("clients.cli", "temporalio.client", "asyncpg", "scipy.stats", "clients.http.app", "worker")
"""What commands and workers load at work. None of it starts a thread, or reads its environment, as it is loaded."""

DESCRIPTORS = 4
"""Of a command: where it reads, writes and complains, and where its exit code is told."""

FRONTED = ("worker", "clients.checks.plugin_process")
"""What commands start that is forked, too. Everything else is an interpreter of its own."""

FRONT = """#!{python} -IS
import os, sys
if sys.argv[1:3] != ["-P", "-m"] or sys.argv[3] not in {fronted}:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import json, signal, socket, struct
asked = socket.socket(socket.AF_UNIX)
asked.connect({address!r})
of_its_own = os.getsid(0) == os.getpid()
told = dict(
    command=sys.argv[3:], directory=os.getcwd(), environment=dict(os.environ), own_session=of_its_own, parent=os.getppid()
)
text = json.dumps(told).encode()
socket.send_fds(asked, [struct.pack("!i", len(text))], [0, 1, 2])
asked.sendall(text)
def number():
    return struct.unpack("!i", asked.recv(4, socket.MSG_WAITALL))[0]
pid = number()
for end in (signal.SIGTERM, signal.SIGINT):
    signal.signal(end, lambda given, _: os.kill(pid, given))
for descriptor in (0, 1, 2):
    os.close(descriptor)
code = number()
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""It ends as its process did: with the same exit code, or by the same signal."""


class Origin:
    """The process that commands are forked from, started with the first of them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        self._folder = Path(tempfile.mkdtemp(prefix="origin-"))
        self.asked_by_fronts = str(self._folder / "socket")
        with theirs, socket.socket(socket.AF_UNIX) as fronts:
            fronts.bind(self.asked_by_fronts)
            fronts.listen(64)
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "tests.support.forked_commands"),
                    *(str(theirs.fileno()), str(fronts.fileno()), str(self._front())),
                ],
                env={**kept, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno(), fronts.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._socket, self._one_at_a_time = ours, threading.Lock()
        atexit.register(self.end)

    def _front(self) -> Path:
        """Write what forked commands start their processes by, with what lies beside Python where they look for it."""
        front = self._folder / "python"
        front.write_text(FRONT.format(python=sys.executable, fronted=FRONTED, address=self.asked_by_fronts), "utf-8")
        front.chmod(0o700)
        (self._folder / "temporal").symlink_to(Path(sys.executable).parent / "temporal")
        return front

    def end(self) -> None:
        """Let it go: it ends where nobody can ask it any more."""
        self._socket.close()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, command: Mapping[str, object], descriptors: Sequence[int]) -> None:
        """Have a command forked, which takes these descriptors."""
        text = json.dumps(command).encode()
        with self._one_at_a_time:
            socket.send_fds(self._socket, [NUMBER.pack(len(text))], descriptors)
            self._socket.sendall(text)


@functools.cache
def origin() -> Origin:
    """The one of this process."""
    return Origin()


class ForkedProcess:
    """`python -m MODULE`, forked."""

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        out: int = 1,
        errors: int = 2,
        *,
        own_session: bool = False,
    ) -> None:
        self._told, theirs = socket.socketpair()
        with theirs:
            asked: dict[str, object] = {
                "command": command,
                "directory": str(directory),
                "environment": dict(environment),
                "own_session": own_session,
            }
            with open(os.devnull, "rb") as nothing:
                origin().ask(asked, [nothing.fileno(), out, errors, theirs.fileno()])
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        told = self._told.recv(NUMBER.size, socket.MSG_WAITALL)
        return int(NUMBER.unpack(told)[0])

    def wait(self) -> int:
        """Wait for its end; returns the exit code, negative where a signal ended it."""
        if self.returncode is None:
            self.returncode = self._number()
        return self.returncode

    async def ended(self) -> int:
        """Do the same without holding up anybody, nor a thread."""
        if self.returncode is None:
            self._told.setblocking(False)
            told = await asyncio.get_running_loop().sock_recv(self._told, NUMBER.size)
            self.returncode = int(NUMBER.unpack(told)[0])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None and not select.select([self._told], [], [], 0)[0]:
            os.kill(self.pid, number)


class AttachedCommand:
    """A `ratchet` that stays, in a session of its own, and what it prints and complains of."""

    def __init__(self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        out, out_of_command = os.pipe()
        command = ("clients.cli", *arguments)
        try:
            self._process = ForkedProcess(command, directory, environment, out_of_command, out_of_command, own_session=True)
        finally:
            os.close(out_of_command)
        self.pid, self.send_signal = self._process.pid, self._process.send_signal
        self.stdout = os.fdopen(out, encoding="utf-8")

    def ending(self) -> tuple[int, str]:
        """How it ended, and the rest of what it said."""
        with self.stdout:
            said = self.stdout.read()
        return self._process.wait(), said

    def end(self) -> None:
        """Kill it, if it is still there, and read nothing more of it."""
        self.send_signal(signal.SIGKILL)
        self.stdout.close()
        self._process.wait()


def run_forked(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run `ratchet` with these arguments, and return when it has ended and nobody holds its output any more."""
    out, out_of_command = os.pipe()
    errors, errors_of_command = os.pipe()
    try:
        process = ForkedProcess(("clients.cli", *arguments), directory, environment, out_of_command, errors_of_command)
    finally:
        os.close(out_of_command)
        os.close(errors_of_command)
    told = {out: b"", errors: b""}
    deadline = time.monotonic() + timeout
    try:
        with selectors.DefaultSelector() as selector:
            for descriptor in told:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired(list(arguments), timeout, told[out], told[errors])
                for key, _ in ready:
                    more = os.read(key.fd, 1 << 16)
                    told[key.fd] += more
                    if not more:
                        selector.unregister(key.fd)
    except BaseException:
        process.send_signal(signal.SIGKILL)
        raise
    finally:
        os.close(out)
        os.close(errors)
    return subprocess.CompletedProcess(list(arguments), process.wait(), told[out], told[errors])


def wait_for_commands(asked: socket.socket, fronts: socket.socket) -> list[str] | None:
    """Fork whatever is asked for. Returns the command line in every child, and nothing once nobody asks any more."""
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        for end in (asked, fronts, woken):
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(1 << 12)
                    tell_ended(running, selector)
                    continue
                if isinstance(key.data, int):  # the front of a process is gone
                    selector.unregister(key.fileobj)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(key.data, signal.SIGKILL)
                    continue
                is_front = key.fileobj is fronts
                source = fronts.accept()[0] if is_front else asked
                command, given = read_command(source)
                if command is None:
                    if not is_front:
                        return None
                    source.close()
                    for descriptor in given:
                        os.close(descriptor)
                    continue
                answer = source if is_front else socket.socket(fileno=given[3])
                if not (pid := os.fork()):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for end in (asked, fronts, woken, wakes, answer, *running.values()):
                        end.close()
                    return become(command, given)
                running[pid] = answer
                with contextlib.suppress(OSError):  # whoever asked may be killed: a front's process then ends, too
                    answer.sendall(NUMBER.pack(pid))
                if is_front:
                    selector.register(answer, selectors.EVENT_READ, pid)
                for descriptor in given[:3]:
                    os.close(descriptor)


def read_command(source: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Read what is asked for, with its descriptors; nothing where whoever asks is gone before all is said."""
    given: list[int] = []
    try:
        head, given, _, _ = socket.recv_fds(source, NUMBER.size, DESCRIPTORS)
        left = NUMBER.unpack(head)[0] if len(head) == NUMBER.size else 0
        text = b""
        while left > len(text) and (more := source.recv(left - len(text))):
            text += more
    except ConnectionError:
        return None, given
    return (json.loads(text) if text and len(text) == left else None), given


def every_model() -> Iterator[type[BaseModel]]:
    """The types of ours that are loaded, which are built when they are used for the first time."""
    found: list[type[BaseModel]] = [Payload, SpecPart]
    while found:
        model = found.pop()
        found += model.__subclasses__()
        yield model


def tell_ended(running: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Tell the exit codes of commands that have ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as answer, contextlib.suppress(OSError):  # nobody may wait for it any more
                if answer in selector.get_map():
                    selector.unregister(answer)
                answer.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def become(asked: dict[str, Any], given: Sequence[int]) -> list[str]:
    """Be the process that was asked for; returns its command line."""
    if asked["own_session"]:
        os.setsid()
    if "parent" in asked:  # of the front, which stands for this process
        os.getppid = functools.partial(int, asked["parent"])
    else:
        sys.executable = sys.argv[3]
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, descriptor in enumerate(given[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    command: list[str] = asked["command"]
    return command


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    for model in every_model():
        model.model_rebuild()
    gc.collect()
    gc.freeze()
    channels = [socket.socket(fileno=int(number)) for number in sys.argv[1:3]]
    if asked_for := wait_for_commands(*channels):
        sys.argv = asked_for
        sys.modules.pop(asked_for[0], None)  # it runs as `__main__`, as by `python -m`
        runpy.run_module(asked_for[0], run_name="__main__", alter_sys=True)
