"""The real HTTP side over the session's stack, and a client of the simulated model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from openai import AsyncOpenAI

from clients.demo import SimulatedModel
from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.runs.service.servers import Servers
from tests.support.engines import Engines
from tests.support.http_api import TOKEN
from tests.support.model_client import client_of


@pytest.fixture
async def client(server: SimulatedModel) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(server) as one:
        yield one


@pytest.fixture(scope="session")
def servers(engines: Engines) -> Servers:
    at = engines.addresses
    return Servers(engines.client, engines.database, at.database_url, at.temporal_address, at.namespace, None, embedded=True)


@pytest.fixture(scope="session")
async def url(servers: Servers) -> AsyncIterator[str]:
    """Where the API answers, without a token, as on anybody's own machine."""
    async with serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=0) as address:
        yield address.url


@pytest.fixture(scope="session")
async def guarded_url(servers: Servers) -> AsyncIterator[str]:
    """The same with a token."""
    async with serving_http(servers, Trust.of("127.0.0.1", TOKEN), "optimization", port=0) as address:
        yield address.url


@pytest.fixture(scope="session")
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{url}/v1/private", timeout=30) as client:
        yield client
