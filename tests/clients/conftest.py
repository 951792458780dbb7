"""A simulated model server, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI

from clients.demo import SimulatedModel, simulated_model
from tests.support.model_client import client_of


@pytest.fixture
async def server() -> AsyncIterator[SimulatedModel]:
    async with simulated_model() as running:
        yield running


@pytest.fixture
async def client(server: SimulatedModel) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(server) as one:
        yield one
