"""Code that renders its prompt by itself sees the candidate's in every trial, wherever it runs, and whatever its tags say."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from temporalio import activity
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES, Settings
from ratchet import experiment_from_headers, experiment_from_input, in_experiment
from ratchet.prompts import OverrideStore, Renderer, effective_hash, open_store, prompt_part
from tests.support.allowed import OPERATOR, allow
from tests.support.engines import PLUGINS, Engines
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.prompt_places import BACKENDS, Place, place_of_kind
from tests.support.prompted_runs import PYTHON, TEXTS, TICKETS, answers, in_production, over, overlays
from worker import serving

_numbers = itertools.count(1)
NOWHERE = "redis://127.0.0.1:9/0"


@pytest.fixture
async def store(engines: Engines) -> AsyncIterator[OverrideStore]:
    async with await open_store(engines.addresses.database_url) as store:
        yield store


@pytest.fixture
def renderer(engines: Engines) -> Iterator[Renderer]:
    """Of a service elsewhere, which keeps prompts at hand and knows nothing of trials."""
    with Renderer(engines.addresses.database_url) as renderer:
        yield renderer


async def rendered_by_template(engines: Engines, store: OverrideStore, name: str, run_id: str) -> dict[str, dict[str, str]]:
    """What each overlay of a run makes of every ticket."""
    template = (await store.resolve(name, tag="1.0.0")).template
    return {
        config_hash: {str(ticket["id"]): template.render(configuration, ticket["input"]).text for ticket in TICKETS}
        for config_hash, configuration in (await overlays(engines, run_id)).items()
    }


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("renders_by_itself", "thread"),
        ("renders_by_itself", "process"),
        ("renders_in_a_thread", "thread"),
        ("renders_in_a_task", "thread"),
        ("renders_in_a_task", "process"),
    ],
)
async def test_python_code_resolves_the_candidate_without_asking_any_store(
    engines: Engines, store: OverrideStore, monkeypatch: pytest.MonkeyPatch, name: str, pool: str
) -> None:
    monkeypatch.setenv("RATCHET_OVERRIDES", NOWHERE)
    prompt, _ = await in_production(store)
    result = await engines.run(over(prompt, {"kind": "python", "ref": f"prompted:{name}", "pool": pool}))
    run_id = result["optimization_id"]
    assert result["best_score"] > result["baseline_score"]
    assert await answers(engines, run_id) == await rendered_by_template(engines, store, prompt.name, run_id)
    assert {state.tag for state in await store.list_tags(prompt.name)} == {"stable"}


async def test_prompts_that_the_trial_is_not_about_are_as_production_has_them(
    engines: Engines, store: OverrideStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_OVERRIDES", engines.addresses.database_url)
    prompt, _ = await in_production(store)
    other, overrides = await in_production(store)
    spec = over(prompt, {"kind": "python", "ref": "prompted:renders_another_prompt_too", "pool": "process"})
    result = await engines.run({**spec, "flags": {"other": other.name}, "stop": {"max_rounds": 1}})
    seen = await answers(engines, result["optimization_id"])
    expected = effective_hash(other.configuration(overrides))
    assert {text.rpartition("\n")[2] for by_sample in seen.values() for text in by_sample.values()} == {expected}


async def test_a_service_that_enters_the_experiment_renders_the_candidate(
    engines: Engines, store: OverrideStore, renderer: Renderer
) -> None:
    prompt, _ = await in_production(store)

    async def answer(asked: Asked) -> web.Response:
        with in_experiment(experiment_from_headers(asked.headers)):
            mine = await renderer.aresolve(prompt.name, tag="stable")
        return web.json_response({"prompt": mine.render(asked.body).text}, headers={"X-Ratchet-Overlay": mine.hash})

    async with json_endpoint(answer) as endpoint:
        result = await engines.run(over(prompt, {"kind": "http", "url": endpoint.url, "body": "{{input}}"}))
    run_id = result["optimization_id"]
    assert result["best_score"] > result["baseline_score"]
    assert await answers(engines, run_id) == await rendered_by_template(engines, store, prompt.name, run_id)


async def test_a_service_that_does_not_is_found_out_by_its_echo(
    engines: Engines, store: OverrideStore, renderer: Renderer
) -> None:
    """The sixth defect of the document: a candidate that is really the baseline must not pass as a candidate."""
    prompt, overrides = await in_production(store)

    async def answer(asked: Asked) -> web.Response:
        stable = await renderer.aresolve(prompt.name, tag="stable")
        return web.json_response({"prompt": stable.render(asked.body).text}, headers={"X-Ratchet-Overlay": stable.hash})

    async with json_endpoint(answer) as endpoint:
        result = await engines.run(over(prompt, {"kind": "http", "url": endpoint.url, "body": "{{input}}"}))
    assert result["best_configuration"] == prompt.configuration(overrides)
    async with engines.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT DISTINCT status, error_class FROM outcomes WHERE run_id = $1 AND config_hash <> $2",
            result["optimization_id"],
            result["best_config_hash"],
        )
    assert [(row["status"], row["error_class"]) for row in rows] == [("failed", "other overlay")]


async def test_an_activity_that_enters_the_experiment_renders_the_candidate(
    engines: Engines, store: OverrideStore, renderer: Renderer
) -> None:
    prompt, _ = await in_production(store)

    @activity.defn(name="renders")
    async def renders(call: dict[str, Any]) -> Any:
        with in_experiment(experiment_from_input(call["context"])):
            mine = await renderer.aresolve(prompt.name)
        return {"value": {"prompt": mine.render(call["sample"]["input"]).text}, "overlay_hash": mine.hash}

    queue = f"renders-{next(_numbers)}"
    allow(ACTIVITY_QUEUES, queue)
    async with Worker(engines.client, task_queue=queue, activities=[renders]):
        result = await engines.run(over(prompt, {"kind": "activity", "activity": "renders", "task_queue": queue}))
    run_id = result["optimization_id"]
    assert result["best_score"] > result["baseline_score"]
    assert await answers(engines, run_id) == await rendered_by_template(engines, store, prompt.name, run_id)


# -- on every backend: what was seen is what is shipped -----------------------------------------------------------------------


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, engines: Engines) -> Place:
    if request.param == "postgres":
        return Place("postgres", engines.addresses.database_url)
    return place_of_kind(request.param, request)


async def test_what_won_is_released_as_it_was_measured_on_every_backend(engines: Engines, place: Place) -> None:
    """The first defect of the document: the baseline has overrides of its own, and so has whatever is tried and shipped."""
    queue = f"prompts-{place.kind}-{next(_numbers)}"
    settings = Settings(
        engines.addresses.database_url,
        operator=OPERATOR,
        task_queue=queue,
        evaluation_task_queue=f"{queue}-evaluation",
        plugins="prompted",
        plugin_path=PLUGINS,
        overrides=place.url,
        grace=timedelta(seconds=1),
    )
    texts = [f"{text} {number}" for number in range(4) for text in TEXTS]
    items = [{"id": f"s{number}", "input": {"ticket": text}} for number, text in enumerate(texts)]
    async with await place.open() as store, serving(engines.client, settings):
        prompt, overrides = await in_production(store)
        spec = over(prompt, PYTHON, dataset={"items": items, "splits": {"validation": 0.5, "test": 0.5}})
        result = await engines.client.execute_workflow(
            "OptimizationWorkflow",
            {**spec, "release": {"mode": "automatic"}},
            id=f"polite-{queue}",
            task_queue=queue,
            result_type=dict,
        )
        with Renderer(place.url) as production:
            shipped = await production.aresolve(prompt.name, tag="stable")
    tried = await overlays(engines, result["optimization_id"])
    assert all(configuration["param:tone"] == "calm" for configuration in tried.values())
    assert prompt.configuration(overrides) in tried.values()
    assert result["release"]["status"] == "released", result["release"]
    assert result["best_configuration"] != prompt.configuration(overrides)
    assert dict(shipped.configuration) == prompt_part(result["best_configuration"])
    assert shipped.hash == effective_hash(result["best_configuration"])
    seen = (await answers(engines, result["optimization_id"]))[result["best_config_hash"]]
    assert len(seen) == len(items)
    for item in items:
        assert shipped.render(item["input"]).text == seen[str(item["id"])]
