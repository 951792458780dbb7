"""The release before this code: taken out of the repository, and run as its own workers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from clients.embedded.stack import StackAddresses
from store.schema import migrations
from tests.support.forked_commands import ROOT

NAMED = ROOT / "tests" / "system" / "upgrades" / "previous_release.txt"
PARTS = ("worker.py", "workflows", "activities", "store", "clients", "ratchet")


def commit_of_previous_release() -> str:
    """The commit that is named; skips where none is, or where this copy of the repository lacks it."""
    commit = NAMED.read_text().split()[-1]
    if commit == "none":
        pytest.skip(f"{NAMED.relative_to(ROOT)} names no commit whose histories and tables still fit")
    asked = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    if shutil.which("git") is None or subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip(f"this copy of the repository lacks the previous release, {commit}: git fetch --unshallow")
    return commit


def unpack_previous_release(folder: Path) -> Path:
    """Its code, in a folder of its own."""
    asked = ["git", "archive", commit_of_previous_release(), *PARTS]
    archive = subprocess.run(asked, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def lives_with_our_schema(code: Path) -> bool:
    """Whether its workers may be started on a database that we have migrated."""
    known = max(int(path.name[:4]) for path in (code / "store" / "migrations").glob("*.sql"))
    return known >= max(migration.compatible_since or 0 for migration in migrations())


class PreviousWorker:
    """`python -m worker` of that release, with the packages of this environment and the tests' plug-ins of now."""

    def __init__(self, code: Path, stack: StackAddresses, calls: Path, told: Mapping[str, str]) -> None:
        self._code = code
        self._log = calls.with_suffix(".previous.log")
        self._environment = os.environ | {
            "TEMPORAL_ADDRESS": stack.temporal_address,
            "DATABASE_URL": stack.database_url,
            "RATCHET_PLUGINS": "plugged",
            "RATCHET_PLUGIN_PATH": str(ROOT / "tests" / "support" / "plugins"),
            "RATCHET_TEST_CALLS": str(calls),
            "PYTHONPATH": str(code),
            "OPENBLAS_NUM_THREADS": "1",
            **told,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = ("-P", "-m", "worker", "--grace", "1", "--log-file", str(self._log))
        self._process = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=self._code, env=self._environment)

    async def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(number)
        await self._process.wait()
