"""Plug-ins written as files beside a spec."""

from __future__ import annotations

import itertools
from pathlib import Path

TARGET = "def target(configuration, sample, context):\n    return 'x'\n"
_numbers = itertools.count()


def new_name(prefix: str) -> str:
    """A module's name that nothing else in this process has."""
    return f"{prefix}_{next(_numbers)}"


def module(folder: Path, source: str, name: str | None = None) -> str:
    """A module in the folder, under a name that nothing else in this process has."""
    name = name or new_name("plugged")
    (folder / f"{name}.py").write_text(source)
    return name
