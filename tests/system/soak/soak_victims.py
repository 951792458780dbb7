"""What a soak does harm to: workers, servers, commands, the ways between them, the disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from clients.embedded.stack import StackAddresses, stack_state
from tests.support.forked_commands import ROOT, ForkedProcess
from tests.system.soak.cut_connections import Proxy
from tests.system.soak.soak_endpoint import LoggedEndpoint

MODULE = "tests.system.soak.upgraded_worker"
FAKETIME = "RATCHET_SOAK_FAKETIME"
"""Names libfaketime where it is not installed as Debian does."""

INSTALLED = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
PATIENCE = 60.0
DISK_MB = 4096


def clock_library() -> Path | None:
    """The library that shifts a process's clock, where there is one; the machine's own clock is never touched."""
    path = Path(os.environ.get(FAKETIME, INSTALLED))
    return path if path.exists() else None


class WornWorker:
    """A worker as it is run in production, killed, stopped, upgraded and shifted in time."""

    def __init__(self, number: int, environment: Mapping[str, str], folder: Path, clock: Path | None) -> None:
        self.number, self.killed = number, 0
        self._is_wanted = False
        self._build = "first"
        self._one_at_a_time = asyncio.Lock()
        self._environment, self._log, self._clock = dict(environment), folder / f"worker-{number}.log", clock
        self.time = folder / f"clock-{number}"
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None

    @property
    def has_own_clock(self) -> bool:
        return self._clock is not None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self, build: str = "first") -> None:
        self._build = build
        await self._start()
        self._is_wanted = True

    async def replace(self, build: str, number: int = signal.SIGKILL) -> None:
        """End it, and start it as this build; two faults at once come one after the other."""
        async with self._one_at_a_time:
            await self.end(number)
            await self.start(build)

    async def keep_alive(self) -> None:
        """Start it again where it ended by itself, as whoever deploys workers does: it ends when it finds no server."""
        if self._one_at_a_time.locked():
            return
        async with self._one_at_a_time:
            if self._is_wanted and self.pid is not None and not _lives(self.pid):
                await self._start()

    async def _start(self) -> None:
        build = self._build
        command = (MODULE, "--grace", "2", "--log-file", str(self._log))
        environment = self._environment | {"RATCHET_SOAK_BUILD": build}
        if self._clock is None:
            self._process = await asyncio.to_thread(ForkedProcess, command, ROOT, environment)
            return
        self.time.write_text("+0\n")
        environment |= {
            "LD_PRELOAD": str(self._clock),
            "FAKETIME_TIMESTAMP_FILE": str(self.time),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": str(ROOT),
        }
        with self._log.with_suffix(".out").open("ab") as out:
            self._process = subprocess.Popen(  # noqa: ASYNC220 (it takes no time)
                [sys.executable, "-P", "-m", *command], cwd=ROOT, env=environment, stdout=out, stderr=out
            )

    async def end(self, number: int = signal.SIGKILL) -> None:
        self._is_wanted = False
        process = self._process
        if process is None:
            return
        if isinstance(process, ForkedProcess):
            process.send_signal(number)
            await process.ended()
        else:
            process.send_signal(number)
            await asyncio.to_thread(process.wait)
        self.killed += number == signal.SIGKILL
        self._process = None

    def memory(self) -> float | None:
        """What it holds, in MB."""
        with contextlib.suppress(psutil.Error):
            if self.pid is not None:
                return float(psutil.Process(self.pid).memory_info().rss) / 1e6
        return None


@dataclass
class Victims:
    """All of them."""

    stack: StackAddresses
    workers: list[WornWorker]
    store_way: Proxy
    temporal_way: Proxy
    endpoint: LoggedEndpoint
    disk: Path | None
    """A file system of limited size that holds all data, where this user may mount one."""
    commands: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    build: int = 0

    @property
    def mortal(self) -> list[WornWorker]:
        """All but the first, of which the memory is watched."""
        return self.workers[1:]

    def server(self, name: str) -> int | None:
        state = stack_state(self.stack.home)
        return {"temporal": state.temporal_pid, "postgres": state.postgres_pid, "supervisor": state.supervisor_pid}[name]

    async def kill_server(self, name: str) -> None:
        """Kill it, and wait until its supervisor has another one."""
        pid = await present(lambda: self.server(name))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await present(lambda: now if (now := self.server(name)) != pid else None)

    def family(self, name: str) -> list[int]:
        """A server's process with its children."""
        pid = self.server(name)
        if pid is None:
            return []
        with contextlib.suppress(psutil.Error):
            return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        return [pid]


async def present(read: Callable[[], int | None]) -> int:
    async with asyncio.timeout(PATIENCE):
        while (found := read()) is None:
            await asyncio.sleep(0.02)
    return found


def _lives(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


@asynccontextmanager
async def stopped(pids: list[int]) -> AsyncIterator[None]:
    """They stand still until the block is left."""
    try:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def limited_disk(folder: Path) -> AsyncIterator[Path | None]:
    """A file system in memory at this folder, where this user may mount one."""
    mounted = _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0700", "soak", str(folder))
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            for _ in range(50):
                if _run("umount", str(folder)):
                    break
                await asyncio.sleep(0.2)


@asynccontextmanager
async def full(disk: Path) -> AsyncIterator[None]:
    """Nothing more fits on it until the block is left: it is made as small as what is on it."""
    found = os.statvfs(disk)
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    _run("mount", "-o", f"remount,size={used // 1024}k", str(disk))
    try:
        yield
    finally:
        _run("mount", "-o", f"remount,size={DISK_MB}m", str(disk))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
