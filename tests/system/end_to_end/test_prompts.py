"""Runs over prompts: what is effective at a tag is the baseline, every candidate has it, and what wins is what ships."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES, RUNNER_URLS
from ratchet import experiment_from_headers
from ratchet.prompts import Overrides, OverrideStore, effective_hash, open_store, prompt_part
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.example_modules import example
from tests.support.http_endpoints import Asked, json_endpoint
from tests.support.plugins.prompted import WORD
from tests.support.prompted_runs import OVERRIDDEN, PYTHON, TICKETS, answers, in_production, over, overlays

runners = example("external-runner/runner.py")
_numbers = itertools.count(1)


@pytest.fixture
async def store(engines: Engines) -> AsyncIterator[OverrideStore]:
    async with await open_store(engines.addresses.database_url) as store:
        yield store


async def failure(engines: Engines, spec: dict[str, Any]) -> str:
    """Why a run was refused, before anything was stored of it."""
    handle = await engines.start(spec)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "InvalidRequest"
    async with engines.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs WHERE run_id = $1", handle.id) == 0
    return failed.value.cause.message


# -- the first defect of the document: candidates without the overrides that production has ---------------------------------


@pytest.mark.parametrize("pool", ["thread", "process"])
async def test_every_candidate_has_what_the_tag_overrides(engines: Engines, store: OverrideStore, pool: str) -> None:
    prompt, overrides = await in_production(store)
    result = await engines.run(over(prompt, {**PYTHON, "pool": pool}))
    assert result["status"] == "completed"
    assert result["best_score"] > result["baseline_score"] == 0.0
    tried = await overlays(engines, result["optimization_id"])
    assert len(tried) == 3
    for configuration in tried.values():
        assert configuration["section:answer"].startswith(OVERRIDDEN)
        assert configuration["param:tone"] == "calm"
        assert configuration["section:role"] == "You sort tickets."
    baseline = prompt.configuration(overrides)
    assert baseline in tried.values()
    assert set(result["changes"]) == {"section:rules/labels", "section:answer"}
    assert result["best_configuration"]["section:answer"] == f"{OVERRIDDEN} {WORD} {WORD}"


async def test_what_was_seen_is_byte_by_byte_what_is_shipped(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    result = await engines.run(over(prompt, PYTHON))
    seen = (await answers(engines, result["optimization_id"]))[result["best_config_hash"]]
    winner = prompt_part(result["best_configuration"])
    before = await store.current(prompt.name, "stable")
    assert before is not None
    await store.store(prompt, prompt.overrides_of(winner), tag="stable", expected=before.revision)
    shipped = await store.resolve(prompt.name, tag="stable")
    assert shipped.configuration == winner
    assert shipped.hash == effective_hash(result["best_configuration"])
    for ticket in TICKETS:
        assert shipped.render(ticket["input"]).text == seen[str(ticket["id"])]


async def test_a_tag_that_moves_during_a_run_changes_nothing_in_it(engines: Engines, store: OverrideStore) -> None:
    prompt, overrides = await in_production(store)
    handle = await engines.start(over(prompt, PYTHON, stop={"max_rounds": 3, "no_improvement": 0}))
    async with engines.database.connection() as connection:
        while not await connection.fetchval("SELECT count(*) FROM candidates WHERE run_id = $1", handle.id):
            pass
    state = await store.current(prompt.name, "stable")
    assert state is not None
    await store.store(prompt, Overrides(), tag="stable", expected=state.revision)
    result = await handle.result()
    assert all(tried["param:tone"] == "calm" for tried in (await overlays(engines, handle.id)).values())
    assert {
        **result["best_configuration"],
        "section:answer": OVERRIDDEN,
        "section:rules/labels": "Labels: billing, shipping.\n",
    } == (prompt.configuration(overrides))


async def test_the_prompt_is_read_once_over_many_executions(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    execution = {"max_rounds_per_execution": 1}
    result = await engines.run(over(prompt, PYTHON, stop={"max_rounds": 3, "no_improvement": 0}, execution=execution))
    assert result["rounds"] == 3
    assert all(tried["param:tone"] == "calm" for tried in (await overlays(engines, result["optimization_id"])).values())


async def test_runs_are_found_by_their_prompt(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    result = await engines.run(over(prompt, PYTHON, stop={"max_rounds": 1}))
    async with asyncio.timeout(20):
        while not (found := [run.id async for run in engines.client.list_workflows(f"RatchetPrompt = '{prompt.name}'")]):
            await asyncio.sleep(0.05)
    assert found == [result["optimization_id"]]


@pytest.mark.parametrize("tag", ["canary", "1.0.0"])
async def test_another_tag_or_a_version_may_be_the_baseline(engines: Engines, store: OverrideStore, tag: str) -> None:
    prompt, overrides = await in_production(store, tag="canary")
    spec = over(prompt, PYTHON, prompt={"name": prompt.name, "tag": tag}, stop={"max_rounds": 1})
    result = await engines.run(spec)
    baseline = prompt.configuration(overrides if tag == "canary" else None)
    assert baseline in (await overlays(engines, result["optimization_id"])).values()


# -- every kind of target sees the same prompt -------------------------------------------------------------------------------


async def _chat(engines: Engines, exits: AsyncExitStack) -> dict[str, Any]:
    def answer(asked: Asked) -> web.Response:
        assert asked.body["temperature"] == 0.5
        assert asked.body["tools"][0]["function"]["name"] == "lookup"
        said = asked.body["messages"][0]["content"]
        return web.json_response(
            {
                "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )

    endpoint = await exits.enter_async_context(json_endpoint(answer))
    messages = [{"role": "system", "content": "{{factors.prompt}}"}, {"role": "user", "content": "{{input.ticket}}"}]
    return {"kind": "chat", "messages": messages, "model": "any", "base_url": endpoint.origin}


async def _http(engines: Engines, exits: AsyncExitStack) -> dict[str, Any]:
    def answer(asked: Asked) -> web.Response:
        assert asked.body["prompt"] == asked.body["all"]["prompt"]
        echo = {"X-Ratchet-Overlay": asked.headers["X-Ratchet-Overlay-Hash"]}
        return web.json_response({"prompt": asked.body["prompt"]}, headers=echo)

    endpoint = await exits.enter_async_context(json_endpoint(answer))
    return {"kind": "http", "url": endpoint.url, "body": {"prompt": "{{factors.prompt}}", "all": "{{factors}}"}}


async def _activity(engines: Engines, exits: AsyncExitStack) -> dict[str, Any]:
    @activity.defn(name="prompted")
    async def prompted(call: dict[str, Any]) -> Any:
        assert "prompt" not in call["configuration"], "it differs by sample"
        return {"value": {"prompt": call["sample"]["prompt"]}, "overlay_hash": call["context"]["overlay_hash"]}

    queue = f"prompted-{next(_numbers)}"
    allow(ACTIVITY_QUEUES, queue)
    await exits.enter_async_context(Worker(engines.client, task_queue=queue, activities=[prompted]))
    return {"kind": "activity", "activity": "prompted", "task_queue": queue}


async def _external(engines: Engines, exits: AsyncExitStack) -> dict[str, Any]:
    def answer(configuration: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        return {"value": {"prompt": sample["prompt"]}}

    url = await exits.enter_async_context(runners.serving(runners.Runner(engines.client, answer=answer)))
    allow(RUNNER_URLS, url)
    return {"kind": "external", "url": url}


async def _python(engines: Engines, exits: AsyncExitStack) -> dict[str, Any]:
    return PYTHON


Serve = Callable[[Engines, AsyncExitStack], Any]


@pytest.mark.parametrize("serve", [_chat, _http, _activity, _external, _python])
async def test_every_kind_of_target_sees_the_prompt_as_production_renders_it(
    engines: Engines, store: OverrideStore, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    prompt, _ = await in_production(store)
    async with AsyncExitStack() as exits:
        target = await serve(engines, exits)
        result = await engines.run(over(prompt, target, stop={"max_rounds": 1}))
    tried, seen = await overlays(engines, result["optimization_id"]), await answers(engines, result["optimization_id"])
    assert len(tried) == len(seen) == 2
    for config_hash, by_sample in seen.items():
        for ticket in TICKETS:
            assert by_sample[str(ticket["id"])] == prompt.render(tried[config_hash], ticket["input"]).text


async def test_a_sample_that_the_prompt_cannot_be_rendered_for_fails_and_says_what_it_lacks(
    engines: Engines, store: OverrideStore, tmp_path: Any
) -> None:
    """Found before a run when the items are at hand; a plug-in's items are only seen when they are answered."""
    prompt, _ = await in_production(store)
    async with AsyncExitStack() as exits:
        target = await _http(engines, exits)
        spec = over(prompt, target, dataset={"items": [{"input": {"text": "x"}}], "splits": "none"})
        assert await failure(engines, spec) == "dataset.items[0].input: has no 'ticket', which target.body.prompt needs"


async def test_an_answer_made_with_another_prompt_never_scores(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    handle = await engines.start(over(prompt, {"kind": "python", "ref": "prompted:echoes_another_prompt"}))
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert f"the target used overlay {'0' * 64}" in failed.value.cause.message


# -- services that render the prompt themselves ------------------------------------------------------------------------------


async def test_a_service_resolves_each_candidate_by_the_tag_that_it_is_told(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)

    async def answer(asked: Asked) -> web.Response:
        experiment = experiment_from_headers(asked.headers)
        assert experiment is not None and experiment.prompt == prompt.name
        mine = await store.resolve(prompt.name, tag=experiment.overrides_tag)
        return web.json_response({"prompt": mine.render(asked.body).text}, headers={"X-Ratchet-Overlay": mine.hash})

    async with json_endpoint(answer) as endpoint:
        target = {"kind": "http", "url": endpoint.url, "body": "{{input}}"}
        result = await engines.run(over(prompt, target))
    run_id = result["optimization_id"]
    assert result["best_score"] > result["baseline_score"]
    tried, seen = await overlays(engines, run_id), await answers(engines, run_id)
    for config_hash, by_sample in seen.items():
        for ticket in TICKETS:
            assert by_sample[str(ticket["id"])] == prompt.render(tried[config_hash], ticket["input"]).text
    tags = {state.tag: state for state in await store.list_tags(prompt.name)}
    assert set(tags) == {"stable", *tried}
    assert {(tags[tag].temporary, tags[tag].owner) for tag in tried} == {(True, run_id)}


async def test_two_runs_share_a_candidates_tag(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    async with AsyncExitStack() as exits:
        target = await _http(engines, exits)
        first, second = [await engines.run(over(prompt, target, stop={"max_rounds": 1}, seed=seed)) for seed in (1, 2)]
    assert first["best_config_hash"] == second["best_config_hash"]
    state = await store.current(prompt.name, second["best_config_hash"])
    assert state is not None and state.owner == second["optimization_id"]


@pytest.mark.parametrize(("source", "published"), [({}, False), ({"publish": True}, True)])
async def test_targets_in_ratchets_own_processes_need_no_tags(
    engines: Engines, store: OverrideStore, source: dict[str, Any], published: bool
) -> None:
    prompt, _ = await in_production(store)
    result = await engines.run(over(prompt, PYTHON, prompt={"name": prompt.name, **source}, stop={"max_rounds": 1}))
    tags = {state.tag for state in await store.list_tags(prompt.name)}
    assert (result["best_config_hash"] in tags) is published


# -- what is refused ---------------------------------------------------------------------------------------------------------


async def test_what_cannot_be_read_is_refused_with_the_field_and_the_fix(engines: Engines, store: OverrideStore) -> None:
    prompt, _ = await in_production(store)
    for told, message in (
        ("nobody/knows", "prompt.name: the store has no prompt nobody/knows; seed it, or check RATCHET_OVERRIDES"),
        ({"name": prompt.name, "tag": "beta"}, f"prompt.tag: {prompt.name} has no tag 'beta'; it has stable"),
        ({"name": prompt.name, "tag": "9.9.9"}, f"prompt.tag: {prompt.name} has no version 9.9.9; it has 1.0.0"),
        ({"file": "triage.yaml"}, "prompt.file: this worker reads no files; set RATCHET_DATA_DIR on the worker"),
    ):
        assert message in await failure(engines, over(prompt, PYTHON, prompt=told))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"optimizer": {"proposer": {"kind": "noop"}, "factors": ["section:nothing"]}}, "'section:nothing' is no factor"),
        ({"optimizer": {"proposer": {"kind": "noop"}, "factors": ["section:role"]}}, "'section:role' is frozen; set"),
        ({"configuration": {"tone": "rude"}}, "configuration.tone: {{factors.tone}} stands for a part of the prompt"),
        (
            {"target": {"kind": "http", "url": "http://127.0.0.1:9/x", "body": {"p": "{{factors.section:rule}}"}}},
            "target.body.p: placeholder {{factors.section:rule}} names no factor; known are section:role",
        ),
    ],
)
async def test_what_does_not_fit_the_prompt_is_refused_once_it_was_read(
    engines: Engines, store: OverrideStore, parts: dict[str, Any], message: str
) -> None:
    prompt, _ = await in_production(store)
    assert message in await failure(engines, over(prompt, PYTHON, **parts))
