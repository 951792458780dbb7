"""Functions of the program that a worker runs in: nobody can import them, so only that worker can be asked for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ImportablePlace:
    """Where a process of its own finds a function of the program."""

    reference: str
    directory: Path | None
    """That of a script, which is no module of any package."""


@dataclass(frozen=True, slots=True)
class ProgramFunction:
    """One function of the program."""

    call: Callable[..., Any]
    place: ImportablePlace | None = None
    """None for what no other process can import, such as a closure."""


@dataclass(frozen=True, slots=True)
class Program:
    """What a program gives the worker that runs in it."""

    functions: Mapping[str, ProgramFunction] = field(default_factory=dict)
    """By reference."""
    loop: asyncio.AbstractEventLoop | None = None
    """Where its async functions belong, and what they close over. None: they get a loop of their own."""
