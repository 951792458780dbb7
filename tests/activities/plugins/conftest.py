"""A directory for plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A spec's directory, off the import path again afterwards."""
    yield tmp_path
    while str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))
