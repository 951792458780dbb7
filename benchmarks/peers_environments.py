"""The peers' own environments: made once, cached in `.bench`, never mixed with the product's; and their processes in them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers_drivers.driving import Job

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".bench"
READY_WITHIN = 60.0


class PeerUnavailable(Exception):
    """Why a peer cannot be installed or run here, in one line."""


@dataclass(frozen=True)
class Peer:
    """A package that is compared with, pinned to the version that its driver was written for."""

    package: str
    version: str
    driver: str
    beside: tuple[str, ...] = ()
    """What else its environment has, as pip takes it."""

    @property
    def folder(self) -> Path:
        python = f"py{sys.version_info.major}.{sys.version_info.minor}"
        return CACHE / f"{self.package}-{self.version}-{python}"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


GEPA = Peer("gepa", "0.1.4", "gepa_driver")
DSPY = Peer("dspy", "3.4.1", "dspy_driver")
OPIK = Peer("opik-optimizer", "3.2.0", "opik_driver")
_SAMPLERS = ("cmaes==0.13.1", *(f"{package}=={version(package)}" for package in ("optuna", "scipy")))
OPTUNA = Peer("coco-experiment", "2.8.2", "search_driver", beside=_SAMPLERS)
"""Optuna's samplers and the BBOB functions; the samplers are those of the very version that the product uses. Of its own,
the peer has `cmaes`, which Optuna's CMA-ES needs."""


def install(peer: Peer) -> None:
    """Make the peer's environment, unless it is there already."""
    complete = peer.folder / "complete"
    if complete.exists():
        return
    shutil.rmtree(peer.folder, ignore_errors=True)
    CACHE.mkdir(exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")  # for git, and for the linters that read it
    print(f"Installing {peer.package} {peer.version} into {peer.folder} …", flush=True)
    for command in (
        [sys.executable, "-m", "venv", str(peer.folder)],
        [str(peer.python), "-m", "pip", "install", "--quiet", f"{peer.package}=={peer.version}", *peer.beside],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerUnavailable(f"cannot be installed: {_last_line(done.stderr)}")
    complete.touch()


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


class PeerProcess:
    """A driver in the peer's interpreter, which does one job after another."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self._process, self._errors = process, errors

    @classmethod
    async def start(cls, peer: Peer, errors: Path, environment: dict[str, str]) -> PeerProcess:
        with errors.open("w") as stream:
            process = await asyncio.create_subprocess_exec(
                str(peer.python),
                "-m",
                f"benchmarks.peers_drivers.{peer.driver}",
                cwd=ROOT,
                env=os.environ | environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stream,
            )
        started = cls(process, errors)
        try:
            async with asyncio.timeout(READY_WITHIN):
                await started._answer("ready")
        except TimeoutError:
            await started.kill()
            raise PeerUnavailable(f"did not start within {READY_WITHIN:g} s: {started._said()}") from None
        return started

    async def run(self, job: Job) -> dict[str, Any]:
        """Do one job; what the driver says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        await self._process.stdin.drain()
        return await self._answer("wall")

    async def _answer(self, expected: str) -> dict[str, Any]:
        """The next line that is the driver's own: some peers print a banner when they are imported."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.startswith(b'{"%s"' % expected.encode()):
                answer: dict[str, Any] = json.loads(line)
                return answer
        await self._process.wait()
        raise PeerUnavailable(f"ended with code {self._process.returncode}: {self._said()}")

    def _said(self) -> str:
        return _last_line(self._errors.read_text())

    async def kill(self) -> None:
        """kill -9."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def opik_backend(errors: Path) -> AsyncIterator[str]:
    """The server that opik-optimizer cannot do without; its address."""
    command = (sys.executable, "-m", "benchmarks.peers_drivers.opik_backend")
    with errors.open("w") as stream:
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=stream)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/api"
    finally:
        process.kill()
        await process.wait()
