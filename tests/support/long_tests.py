"""Which tests `make test` leaves to `make test-all`: `tests/long_tests.txt` names them, and says what stays in their place."""

from __future__ import annotations

import re
from fnmatch import translate
from pathlib import Path

_NAMED = Path(__file__).parents[1] / "long_tests.txt"

LONG = [line.partition("  #")[0] for line in _NAMED.read_text("utf-8").splitlines() if not line.startswith("#")]
"""Patterns of ids, as fnmatch has them."""


_ANY_OF_THEM = re.compile("|".join(map(translate, LONG)))


def is_long(test: str) -> bool:
    """Whether a test of this id is left out."""
    return _ANY_OF_THEM.match(test) is not None
