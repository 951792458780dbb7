"""Every backend for real: the contract's tests run against each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ratchet.prompts import OverrideStore
from tests.support.prompt_places import BACKENDS, SERVED, Place, place_of_kind


@pytest.fixture(params=[pytest.param(kind, marks=[pytest.mark.slow] * (kind in SERVED)) for kind in BACKENDS])
def place(request: pytest.FixtureRequest) -> Place:
    return place_of_kind(request.param, request)


@pytest.fixture
async def store(place: Place) -> AsyncIterator[OverrideStore]:
    async with await place.open() as store:
        yield store
