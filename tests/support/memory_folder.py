"""Temporary files of the tests in memory, where the machine has room for them.

Tests make and remove hundreds of thousands of small files: each database is a folder of 600. On ext4 that takes more and more
time of the kernel, as it looks at what was removed a minute ago before it gives a new file its place. `TMPDIR` says otherwise.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 6 * 1024**3
"""Many times what a run of all tests has in files at once."""

_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder before anything is put into it. Processes that share the tests inherit the choice."""
    if "TMPDIR" in os.environ or hasattr(config, "workerinput") or not _has_room():
        return
    config.stash[_FOLDER] = folder = Path(tempfile.mkdtemp(prefix="rt-", dir=MEMORY))
    folder.chmod(0o711)  # PostgreSQL is run as somebody else where root runs the tests
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the memory back."""
    folder = config.stash.get(_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["TMPDIR"]
        tempfile.tempdir = None


def _has_room() -> bool:
    """Whether files may lie in memory, and memory is left beside them."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return False
    return min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available - ENOUGH_BYTES) > ENOUGH_BYTES
