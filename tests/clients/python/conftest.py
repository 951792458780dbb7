"""A home whose servers run already, for the runs of this program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ratchet
from clients.embedded.stack import StackAddresses


@pytest.fixture(scope="module")
def home(unserved_stack: StackAddresses) -> Iterator[Path]:
    yield unserved_stack.home
    ratchet.close()
