"""Child processes, begun so that no thread of ours can hold them up.

uvloop begins a process by a fork in which Python goes on for a moment. Where another thread holds a lock just then, as one does
that loads a native library, the child waits for that lock for ever, and our loop for the child. CPython's own way runs nothing
of Python's between fork and exec.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import IO

LONGEST_LINE = 2**16


class ChildProcess:
    """A process in a session of its own: Ctrl-C is for us, and what becomes of it is our decision."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._wait, args=(self._ended.get_loop(),), name=f"child-{process.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its number, which is that of its group, too."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, once somebody could have waited for that."""
        return self._ended.result() if self._ended.done() else None

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it, with all that it has started."""
        _kill_group(self.pid)

    async def wait(self) -> int:
        """How it ended, once it has."""
        return await asyncio.shield(self._ended)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed, nobody waits any more
            loop.call_soon_threadsafe(self._has_ended, code)

    def _has_ended(self, code: int) -> None:
        self._ended.set_result(code)


class PipedProcess(ChildProcess):
    """One with its input and output as streams."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        super().__init__(process)
        self.stdin = stdin
        self.stdout = stdout

    async def answer(self, question: bytes) -> bytes:
        """All that it says to this, until it has ended."""
        self.stdin.write(question)
        self.stdin.close()
        said = await self.stdout.read()
        await self.wait()
        return said

    def _has_ended(self, code: int) -> None:
        self.stdin.close()
        super()._has_ended(code)


def begin(*command: str, env: Mapping[str, str] | None = None, output: IO[bytes]) -> ChildProcess:
    """Begin one without input, which writes to a file whatever it says."""
    return ChildProcess(_begun(command, env, subprocess.DEVNULL, output, output))


async def begin_piped(
    *command: str, env: Mapping[str, str] | None = None, errors: IO[bytes] | None = None, longest_line: int = LONGEST_LINE
) -> PipedProcess:
    """Begin one that is spoken to. A line of its output that is longer than `longest_line` cannot be read."""
    loop = asyncio.get_running_loop()
    process = _begun(command, env, subprocess.PIPE, subprocess.PIPE, errors)
    try:
        told, unused = asyncio.StreamReader(limit=longest_line, loop=loop), asyncio.StreamReader(loop=loop)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told, loop=loop), process.stdout)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(unused, loop=loop), process.stdin
        )
    except BaseException:
        _kill_group(process.pid)
        process.wait()
        raise
    return PipedProcess(process, asyncio.StreamWriter(transport, protocol, None, loop), told)


def _begun(
    command: tuple[str, ...], env: Mapping[str, str] | None, stdin: int, stdout: int | IO[bytes], stderr: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    """It returns once the program has begun, a millisecond later."""
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env, start_new_session=True)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
