"""Our modules as processes of their own, forked from one that has loaded what they load: that takes most of a command's time.

Each has its own working directory, environment, output and exit code, can be killed, and ends as every interpreter does.
Started from nothing they are by `ratchet` itself, and where tests look at what a command loads.
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
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NUMBER = struct.Struct("!i")
LOADED = ("clients.cli", "temporalio.client", "asyncpg", "scipy.stats", "clients.http.app", "worker")
"""What commands and workers load at work. None of it starts a thread, or reads its environment, as it is loaded."""

DESCRIPTORS = 3
"""Of a command: where it writes, where it complains, and where its exit code is told."""


class Origin:
    """The process that commands are forked from, started with the first of them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.support.forked_commands", str(theirs.fileno())],
                env={**kept, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._socket, self._one_at_a_time = ours, threading.Lock()
        atexit.register(self.end)

    def end(self) -> None:
        """Let it go: it ends where nobody can ask it any more."""
        self._socket.close()
        self._process.wait()

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
            origin().ask(asked, [out, errors, theirs.fileno()])
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


def wait_for_commands(asked: socket.socket) -> list[str] | None:
    """Fork whatever is asked for. Returns the command line in every child, and nothing once nobody asks any more."""
    woken, wakes = socket.socketpair()
    for end in (woken, wakes):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is woken:
                    woken.recv(1 << 12)
                    tell_ended(running)
                    continue
                head, given, _, _ = socket.recv_fds(asked, NUMBER.size, DESCRIPTORS)
                if not head:
                    return None
                text = b""
                while len(text) < NUMBER.unpack(head)[0]:
                    text += asked.recv(NUMBER.unpack(head)[0] - len(text))
                answer = socket.socket(fileno=given[2])
                if not (pid := os.fork()):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for end in (asked, woken, wakes, answer, *running.values()):
                        end.close()
                    return become(json.loads(text), given)
                running[pid] = answer
                answer.sendall(NUMBER.pack(pid))
                os.close(given[0])
                os.close(given[1])


def tell_ended(running: dict[int, socket.socket]) -> None:
    """Tell the exit codes of commands that have ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as answer, contextlib.suppress(OSError):  # nobody may wait for it any more
                answer.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))


def become(asked: dict[str, Any], given: Sequence[int]) -> list[str]:
    """Be the process that was asked for; returns its command line."""
    if asked["own_session"]:
        os.setsid()
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, descriptor in enumerate(given[:2], start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    command: list[str] = asked["command"]
    return command


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    if asked_for := wait_for_commands(socket.socket(fileno=int(sys.argv[1]))):
        sys.argv = asked_for
        sys.modules.pop(asked_for[0], None)  # it runs as `__main__`, as by `python -m`
        runpy.run_module(asked_for[0], run_name="__main__", alter_sys=True)
