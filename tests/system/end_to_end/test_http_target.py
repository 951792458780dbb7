"""A run against an HTTP endpoint, from the spec to the best configuration."""

from __future__ import annotations

import pytest
from aiohttp import web
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from activities.settings import OperatorSettings
from tests.support.engines import Engines
from tests.support.http_endpoints import Spec, climbing, hill, json_endpoint, target
from tests.support.impatient_worker import impatient_worker

TOKEN = "very-secret-4711"


async def test_a_run_climbs_over_http_and_pays_what_the_endpoint_says(engines: Engines, spec: Spec) -> None:
    async with json_endpoint(hill) as endpoint:
        result = await engines.run(climbing(spec, endpoint.url))
    assert result["status"] == "completed"
    assert result["best_score"] > result["baseline_score"] == pytest.approx(0.01)
    calls = len(endpoint.asked)
    assert result["spend"] == {"trials": 5, "samples": calls, "tokens": 20 * calls, "cost": 0.5 * calls}
    asked = endpoint.asked[0]
    assert asked.body == {"settings": {"x": 10, "unit": "metre"}, "where": 0, "unit": "in metre"} or asked.body["where"] > 0
    assert {one.headers["X-Ratchet-Run"] for one in endpoint.asked} == {result["optimization_id"]}
    overlays = {one.headers["X-Ratchet-Overlay"]: one.body["settings"]["x"] for one in endpoint.asked}
    assert len(overlays) == len(set(overlays.values())) == 5


async def test_the_token_is_nowhere_but_in_the_request(engines: Engines, spec: Spec) -> None:
    async with json_endpoint(hill) as endpoint:
        operator = OperatorSettings(http_token=TOKEN, http_urls=(endpoint.origin,))
        async with impatient_worker(engines, "knows-the-token", operator) as queue:
            execution = {"evaluation_task_queue": queue}
            bearer = target(endpoint.url, auth="bearer")
            handle = await engines.start(climbing(spec, endpoint.url, target=bearer, execution=execution))
            assert (await handle.result())["status"] == "completed"
    assert {one.headers["Authorization"] for one in endpoint.asked} == {f"Bearer {TOKEN}"}
    async with engines.database.connection() as connection:
        for table in ("runs", "suites", "trials", "outcomes", "events"):
            found = await connection.fetchval(f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%{TOKEN}%'")
            assert found == 0, table
    history = b"".join(event.SerializeToString() for event in (await handle.fetch_history()).events)
    assert endpoint.url.encode() in history and TOKEN.encode() not in history


async def test_an_endpoint_that_refuses_ends_the_run_at_its_first_answer(engines: Engines, spec: Spec) -> None:
    async with json_endpoint(lambda _: web.json_response({"detail": "who are you?"}, status=403)) as endpoint:
        handle = await engines.start(climbing(spec, endpoint.url, execution={"concurrent_samples": 1}))
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "baseline_failed"
    for part in ("HTTP 403", "who are you?", endpoint.url, "RATCHET_HTTP_TOKEN"):
        assert part in failed.value.cause.message
    assert len(endpoint.asked) == 1


async def test_a_placeholder_that_names_nothing_is_refused_before_anything_is_called(engines: Engines, spec: Spec) -> None:
    async with json_endpoint(hill) as endpoint:
        handle = await engines.start(climbing(spec, endpoint.url, target=target(endpoint.url, body={"q": "{{factors.y}}"})))
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InvalidRequest"
    assert "target.body.q: placeholder {{factors.y}} names no factor" in failed.value.cause.message
    assert endpoint.asked == []
