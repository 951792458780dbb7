"""`ratchet` as a process of its own, forked from one that has loaded what commands load: that takes most of a command's time.

A command has its own working directory, environment, output and exit code, and ends as every interpreter does. Started from
nothing it is in `Bench.attached` and where tests look at what a command loads.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
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

from clients.cli import main

ROOT = Path(__file__).parents[2]
LENGTH = struct.Struct("!I")
ENDED = struct.Struct("!i")
LOADED = ("temporalio.client", "asyncpg", "scipy.stats", "clients.http.app", "worker")
"""What commands load in the course of their work. None of it starts a thread or reads its environment as it is loaded."""

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

    def ask(self, command: dict[str, object], descriptors: Sequence[int]) -> None:
        """Have a command forked, which takes these descriptors."""
        text = json.dumps(command).encode()
        with self._one_at_a_time:
            socket.send_fds(self._socket, [LENGTH.pack(len(text))], descriptors)
            self._socket.sendall(text)


@functools.cache
def origin() -> Origin:
    """The one of this process."""
    return Origin()


def run_forked(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run `ratchet` with these arguments, and return when it has ended and nobody holds its output any more."""
    ours, theirs = socket.socketpair()
    out, out_of_command = os.pipe()
    errors, errors_of_command = os.pipe()
    given = [out_of_command, errors_of_command, theirs.fileno()]
    try:
        origin().ask({"arguments": arguments, "directory": str(directory), "environment": dict(environment)}, given)
    finally:
        theirs.close()
        os.close(out_of_command)
        os.close(errors_of_command)
    with ours, selectors.DefaultSelector() as selector:
        told: dict[int, bytes] = {out: b"", errors: b"", ours.fileno(): b""}
        for descriptor in told:
            selector.register(descriptor, selectors.EVENT_READ)
        deadline = time.monotonic() + timeout
        try:
            while selector.get_map():
                ready = selector.select(deadline - time.monotonic())
                if not ready:
                    raise subprocess.TimeoutExpired(list(arguments), timeout, told[out], told[errors])
                for key, _ in ready:
                    more = os.read(key.fd, 1 << 16)
                    told[key.fd] += more
                    if not more:
                        selector.unregister(key.fd)
        except BaseException:
            pid = ENDED.unpack_from(told[ours.fileno()])[0]
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            os.close(out)
            os.close(errors)
        code = ENDED.unpack_from(told[ours.fileno()], ENDED.size)[0]
    return subprocess.CompletedProcess(list(arguments), code, told[out], told[errors])


def wait_for_commands(asked: socket.socket) -> list[str] | None:
    """Fork whatever is asked for. Returns its arguments in every command, and nothing once nobody asks any more."""
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
                head, given, _, _ = socket.recv_fds(asked, LENGTH.size, DESCRIPTORS)
                if not head:
                    return None
                text = b""
                while len(text) < LENGTH.unpack(head)[0]:
                    text += asked.recv(LENGTH.unpack(head)[0] - len(text))
                answer = socket.socket(fileno=given[2])
                if not (pid := os.fork()):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for end in (asked, woken, wakes, answer, *running.values()):
                        end.close()
                    return become(json.loads(text), given)
                running[pid] = answer
                answer.sendall(ENDED.pack(pid))
                os.close(given[0])
                os.close(given[1])


def tell_ended(running: dict[int, socket.socket]) -> None:
    """Tell the exit codes of commands that have ended."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as answer:
                answer.sendall(ENDED.pack(os.waitstatus_to_exitcode(status)))


def become(command: dict[str, list[str] | str | dict[str, str]], given: Sequence[int]) -> list[str]:
    """Be the process that was asked for; returns its arguments."""
    arguments, directory, environment = command["arguments"], command["directory"], command["environment"]
    assert isinstance(arguments, list) and isinstance(directory, str) and isinstance(environment, dict)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    for number, descriptor in enumerate(given[:2], start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return arguments


if __name__ == "__main__":
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    asked_for = wait_for_commands(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(0 if asked_for is None else main(asked_for))
