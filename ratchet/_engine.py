"""Find the engine, which is an extra, and lies elsewhere in a checkout than in an installation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ENGINE = 'pip install "ratchet-optimizer[engine]", and with `,embedded` for servers on this machine'


def prefer_checkout() -> None:
    """In a checkout, what has a room's name on PYTHONPATH must not be taken for the room."""
    root = Path(__file__).resolve().parents[1]
    if (root / "pyproject.toml").is_file() and sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))


def python_api(name: str) -> ModuleType:
    """Return the module with the Python API, of which `name` is asked for."""
    with _told(name):
        from clients.python import api
    return api


def optimizer_kit(name: str) -> ModuleType:
    """Return the module with the test kit for optimizers."""
    with _told(name):
        from clients import testing
    return testing


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Where the engine is missing, say how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in sys.modules:
            raise
        raise ImportError(f"ratchet.{name} needs the engine, which lacks the package {error.name!r}: {ENGINE}") from None
