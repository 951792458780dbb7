"""The real HTTP side over the session's stack, and runs to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from clients.http.app import serving_http
from clients.http.security import Trust
from clients.runs.servers import Servers
from tests.support.engines import Engines

TOKEN = "a-token-of-the-tests-0123456789"


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


@pytest.fixture(scope="session")
async def finished(engines: Engines) -> str:
    """A finished run with candidates, rejections and a confirmation."""
    await engines.run(hill_spec(name="seen", dataset=split_items(), stop={"max_rounds": 6, "no_improvement": 0}), run_id="seen")
    return "seen"


def split_items() -> dict[str, Any]:
    items = [{"id": f"s{n}", "input": n, "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(12)]
    return {"items": items, "splits": {"validation": 0.5, "test": 0.5}}


def hill_spec(**parts: Any) -> dict[str, Any]:
    """A small run over a deterministic target; keyword arguments replace parts of it."""
    return {
        "name": "hill",
        "configuration": {
            "x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10},
            "unit": "metre",
        },
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": f"s{n}", "input": n} for n in range(8)]},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"name": "refine", "proposer": {"kind": "step"}},
        "stop": {"max_rounds": 4, "no_improvement": 0},
        "seed": 7,
    } | parts


Spec = Callable[..., dict[str, Any]]
