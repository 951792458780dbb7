"""A process that is killed in the middle of a write: at the n-th thing it does to a file, or the n-th message it sends.

It reads lines `url n action name` and forks a child for each, so that everything is imported once only. The child kills itself
with SIGKILL; a line says with which signal it died, 0 if it came to the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ratchet.prompts import Change, OverrideStore, open_store
from tests.support.prompt_examples import template, toned


class Countdown:
    """Kills this process at the n-th step after it was armed."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self._armed = False

    def arm(self) -> None:
        self._armed = True

    def is_over(self) -> bool:
        self._left -= self._armed
        return self._left == 0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def watch_files(countdown: Countdown) -> None:
    """Die before the system call; before a sync, with half of the file written."""
    for name in ("open", "mkdir", "replace", "unlink"):
        setattr(os, name, partial(_deadly, countdown, getattr(os, name)))
    sync = os.fsync

    def half_written(descriptor: int) -> None:
        if countdown.is_over():
            if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        sync(descriptor)

    os.fsync = half_written  # type: ignore[assignment]


def _deadly(countdown: Countdown, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    if countdown.is_over():
        die()
    return call(*arguments, **named)


def watch_messages(countdown: Countdown) -> None:
    """Die with half of the message sent."""

    def deadly(call: Callable[..., Any], connection: socket.socket, data: Any, *more: Any) -> Any:
        if countdown.is_over():
            whole = data if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)
            socket.socket.send = send  # type: ignore[method-assign]
            connection.setblocking(True)
            connection.sendall(bytes(whole)[: len(whole) // 2])
            die()
        return call(connection, data, *more)

    send = socket.socket.send
    for name in ("send", "sendall", "sendmsg"):
        call = getattr(socket.socket, name)
        setattr(socket.socket, name, lambda connection, data, *more, call=call: deadly(call, connection, data, *more))


async def seed(store: OverrideStore, name: str) -> None:
    await store.seed(template(name), change=Change(id="dying", action="seed"))


async def move(store: OverrideStore, name: str) -> None:
    change = Change(id="dying", action="release", evidence={"run": "r" * 5000})
    await store.store(template(name), toned("Be kind."), tag="stable", expected=1, version="1.0.1", change=change)


async def delete(store: OverrideStore, name: str) -> None:
    await store.delete(name, tag="stable", expected=1, change=Change(id="dying", action="delete"))


async def purge(store: OverrideStore, name: str) -> None:
    await store.delete(name, tag="opt-1", expected=1)


CHANGES = ("seed", "move", "delete")
ACTIONS = {"seed": seed, "move": move, "delete": delete, "purge": purge}


async def act(url: str, steps: int, action: str, name: str) -> None:
    countdown = Countdown(steps)
    (watch_files if url.startswith("file:") else watch_messages)(countdown)
    async with await open_store(url) as store:
        countdown.arm()
        await ACTIONS[action](store, name)
    os._exit(0)


async def load(url: str) -> None:
    """Have everything imported that getting there takes, before anybody is forked."""
    async with await open_store(url):
        pass


def main() -> None:
    loaded = ""
    for line in sys.stdin:
        url, steps, action, name = line.split()
        if url != loaded:
            asyncio.run(load(url))
            loaded = url
        child = os.fork()
        if child == 0:
            asyncio.run(act(url, int(steps), action, name))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status), flush=True)


if __name__ == "__main__":
    main()
