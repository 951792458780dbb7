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


def declared_runs(name: str) -> ModuleType:
    """Return the module that checks and runs declared experiments."""
    with _told(name):
        from clients.python import declared_runs
    return declared_runs


def tested_baselines(name: str) -> ModuleType:
    """Return the module that compares what a test measured with a stored baseline."""
    with _told(name):
        from clients.python import tested_baselines
    return tested_baselines


def optimizer_kit(name: str) -> ModuleType:
    """Return the module with the test kit for optimizers."""
    with _told(name):
        from clients import testing
    return testing


def run_interface(name: str) -> ModuleType:
    """Return the module with a run's interface for Temporal programs. It is light: workflows import it, too."""
    with _told(name):
        from clients.programs import run_interface
    return run_interface


def run_requests(name: str) -> ModuleType:
    """Return the module with what workflows of Temporal programs query and update runs by."""
    with _told(name):
        from clients.programs import run_requests
    return run_requests


def program_plugin(name: str) -> ModuleType:
    """Return the module with the plug-in for Temporal programs."""
    with _told(name):
        from clients.programs import program_plugin
    return program_plugin


def fake_models(name: str) -> ModuleType:
    """Return the module with the models for tests."""
    with _told(name):
        from clients.testing import fake_model
    return fake_model


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Where the engine is missing, say how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in sys.modules:
            raise
        raise ImportError(f"ratchet.{name} needs the engine, which lacks the package {error.name!r}: {ENGINE}") from None
