"""Every backend for real: the contract's tests run against each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ratchet.prompts import OverrideStore, open_store
from tests.activities.conftest import database_url, postgres, postgres_process

__all__ = ["database_url", "postgres", "postgres_process"]

BACKENDS = ("file", "postgres")


@dataclass(frozen=True)
class Place:
    """Where the prompts of a test are kept."""

    kind: str
    url: str

    async def open(self) -> OverrideStore:
        return await open_store(self.url)


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind: str = request.param
    if kind == "file":
        return Place(kind, f"file:{tmp_path / 'prompts'}")
    return Place(kind, request.getfixturevalue("database_url"))


@pytest.fixture
async def store(place: Place) -> AsyncIterator[OverrideStore]:
    async with await place.open() as store:
        yield store
