"""What limits a run, while it goes on: adjustments reach calls that wait, and limits hold for everything the run asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError

from clients.demo.model_server import SimulatedModel, simulated_model
from clients.demo.models import ECHO
from tests.support.engines import Engines

WITHIN_SECONDS = 8.0
"""A run's limits are looked up every two seconds; the rest is for a machine that does much else."""


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[SimulatedModel]:
    async with simulated_model(latency_ms=50) as server:
        yield server


def spec(endpoint: SimulatedModel, samples: int, **execution: Any) -> dict[str, Any]:
    return {
        "name": "flow",
        "configuration": {"system": {"value": "Repeat.", "change": "text"}, "temperature": 0.0},
        "target": {
            "kind": "chat",
            "model": ECHO,
            "base_url": endpoint.base_url,
            "messages": [
                {"role": "system", "content": "{{factors.system}}"},
                {"role": "user", "content": "{{input.text}}"},
            ],
        },
        "dataset": {
            "items": [{"id": f"s{n}", "input": {"text": f"t{n}"}, "expected": f"t{n}"} for n in range(samples)],
            "splits": "none",
        },
        "objective": {"metric": "exact"},
        "optimizer": {"proposer": {"kind": "noop"}},
        "budget": {"trials": 1},
        "execution": execution,
    }


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_more_at_once_reaches_a_shard_at_work_within_seconds(engines: Engines, endpoint: SimulatedModel) -> None:
    handle = await engines.start(spec(endpoint, 600, concurrent_samples=1))
    await until(lambda: endpoint.calls >= 3)
    assert endpoint.stats()["max_concurrent"] == 1
    await handle.execute_update("adjust", {"concurrent_samples": 24})
    await until(lambda: endpoint.stats()["in_flight"] >= 20, WITHIN_SECONDS)
    await handle.execute_update("adjust", {"concurrent_samples": 2})
    await until(lambda: endpoint.stats()["in_flight"] <= 2, WITHIN_SECONDS)
    endpoint.reset()
    await handle.execute_update("adjust", {"concurrent_samples": 100})
    assert (await handle.result())["spend"]["samples"] == 600


async def test_a_rate_is_held_and_a_new_one_reaches_a_shard_at_work(engines: Engines, endpoint: SimulatedModel) -> None:
    limits = {ECHO: {"requests_per_minute": 600}}
    handle = await engines.start(spec(endpoint, 300, concurrent_samples=32, rate_limits=limits))
    await until(lambda: endpoint.calls >= 5)
    before, started = endpoint.calls, time.monotonic()
    await until(lambda: endpoint.calls >= before + 20)
    assert 20 / (time.monotonic() - started) < 14, "calls a second, at a limit of 10"
    await handle.execute_update("adjust", {"rate_limits": {ECHO: {"requests_per_minute": 60_000}}})
    async with asyncio.timeout(WITHIN_SECONDS + 5):
        result = await handle.result()
    assert (result["spend"]["samples"], endpoint.calls) == (300, 300)
    async with engines.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM rate_limits WHERE run_id = $1", handle.id) == 1


async def test_an_endpoint_gets_no_more_at_once_than_its_limit(engines: Engines, endpoint: SimulatedModel) -> None:
    limits = {endpoint.base_url: {"concurrent_requests": 3}}
    await engines.run(spec(endpoint, 60, concurrent_samples=32, rate_limits=limits))
    assert endpoint.stats()["max_concurrent"] == 3


async def test_a_trial_gets_no_more_at_once_than_its_limit(engines: Engines, endpoint: SimulatedModel) -> None:
    await engines.run(spec(endpoint, 100, concurrent_samples=32, concurrent_samples_per_trial=5))
    assert endpoint.stats()["max_concurrent"] == 5


async def test_a_limit_of_what_is_never_called_is_refused(engines: Engines, endpoint: SimulatedModel) -> None:
    handle = await engines.start(spec(endpoint, 1, rate_limits={"gpt-misspelt": {"requests_per_minute": 1}}))
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    known = f"'gpt-misspelt' is no model that this run calls; known are {ECHO}, or the URL of an endpoint"
    assert known in str(failed.value.cause)
    handle = await engines.start(spec(endpoint, 1000, concurrent_samples=2))
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("adjust", {"rate_limits": {"gpt-misspelt": {"requests_per_minute": 1}}})
    assert known in str(refused.value.cause)
    await until(lambda: endpoint.calls > 0)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
