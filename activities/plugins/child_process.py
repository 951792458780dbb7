"""Child processes of a worker, begun so that none of its threads can hold them up.

uvloop begins a process by a fork in which Python goes on for a moment. Where another thread holds a lock just then, as one does
that loads a native library, the child waits for that lock for ever, and the worker's loop for the child. CPython's own way runs
nothing of Python's between fork and exec.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping

LONGEST_LINE = 2**16


class ChildProcess:
    """A process in a session of its own, with its input and output as streams."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin = stdin
        self.stdout = stdout
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._wait, args=(self._ended.get_loop(),), name=f"child-{process.pid}", daemon=True).start()

    @classmethod
    async def started(
        cls, *command: str, env: Mapping[str, str] | None = None, longest_line: int = LONGEST_LINE
    ) -> ChildProcess:
        """Begin one. A line of its output that is longer than `longest_line` cannot be read."""
        loop = asyncio.get_running_loop()
        pipe = subprocess.PIPE
        # It returns once the program has begun, a millisecond later: what else blocks comes after that.
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, start_new_session=True)  # noqa: ASYNC220
        try:
            told = asyncio.StreamReader(limit=longest_line, loop=loop)
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told, loop=loop), process.stdout)
            unused = asyncio.StreamReader(loop=loop)
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(unused, loop=loop), process.stdin
            )
            return cls(process, asyncio.StreamWriter(transport, protocol, None, loop), told)
        except BaseException:
            _kill_group(process.pid)
            process.wait()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, once somebody could have waited for that."""
        return self._ended.result() if self._ended.done() else None

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
        self.stdin.close()
        self._ended.set_result(code)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
