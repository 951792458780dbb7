"""Which tests `make test` leaves to `make test-all`: `tests/long_tests.txt` names them, and says what stays in their place."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

_NAMED = Path(__file__).parents[1] / "long_tests.txt"

LONG = [line.partition("  #")[0] for line in _NAMED.read_text("utf-8").splitlines() if not line.startswith("#")]
"""Patterns of ids, as fnmatch has them."""


def is_long(test: str) -> bool:
    """Whether a test of this id is left out."""
    return any(fnmatchcase(test, pattern) for pattern in LONG)
