"""`ratchet check` of targets that run elsewhere: whether somebody serves them, without asking them for anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from clients.checks.findings import Finding, check_spec
from clients.runs.service.pollers import Pollers, unserved_activities, unserved_queues, unserved_without_servers
from tests.support.activity_targets import height, theirs
from tests.support.engines import Engines
from tests.support.spec_texts import changed
from workflows.model.spec.request import OptimizationRequest
from workflows.model.spec.targets.external import ActivityTarget

PYTHON = '{kind: python, ref: "mine:target"}'


async def findings(directory: Path, url: str, *, own_worker: bool = True) -> list[Finding]:
    (directory / "spec.yaml").write_text(changed(PYTHON, f'{{kind: external, url: "{url}"}}'))
    return (await check_spec(directory / "spec.yaml", own_worker=own_worker)).findings


async def test_who_runs_a_spec_on_a_worker_of_his_own_may_name_any_runner(tmp_path: Path) -> None:
    [found] = await findings(tmp_path, "https://runner.example.invalid/v1")
    assert found.message.startswith("target.url: the runner at runner.example.invalid:443 cannot be reached: ")


async def test_a_runner_that_workers_may_not_call_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = await findings(tmp_path, "https://runner.example.invalid/v1", own_worker=False)
    assert found.message == (
        "target.url: workers call only runners their operator named, and https://runner.example.invalid/v1 is none of them; "
        "add its origin, https://runner.example.invalid, to RATCHET_RUNNER_URLS"
    )
    monkeypatch.setenv("RATCHET_RUNNER_URLS", "https://runner.example.invalid:443")
    [found] = await findings(tmp_path, "https://runner.example.invalid/v1", own_worker=False)
    assert found.message.startswith("target.url: the runner at runner.example.invalid:443 cannot be reached: ")


async def test_a_runner_that_listens_is_sent_nothing(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        assert await findings(tmp_path, url) == []
        async with asyncio.timeout(10):
            while not heard:
                await asyncio.sleep(0.01)
    assert heard == [b""]
    [found] = await findings(tmp_path, url)
    assert found.message.endswith("start it, or correct the URL")


def _asking(target: ActivityTarget) -> OptimizationRequest:
    return OptimizationRequest.model_validate(yaml.safe_load(changed(PYTHON, PYTHON))).model_copy(update={"target": target})


async def test_a_task_queue_that_nobody_serves_is_told_with_what_to_do(engines: Engines) -> None:
    [told] = await unserved_activities(
        engines.client, _asking(ActivityTarget(kind="activity", activity="theirs", task_queue="nobody-here"))
    )
    assert told.startswith("target.task_queue: nobody serves activities of task queue 'nobody-here' in namespace default of ")
    assert "start the worker that has activity 'theirs' there" in told
    async with theirs(engines, height) as given, asyncio.timeout(20):
        while await unserved_activities(engines.client, _asking(ActivityTarget.model_validate(given))):
            await asyncio.sleep(0.05)


def test_while_the_servers_do_not_run_nobody_can_serve_it() -> None:
    spec = yaml.safe_load(changed(PYTHON, "{kind: activity, activity: theirs, task_queue: queue}"))
    queues = OptimizationRequest.model_validate(spec | {"execution": {"evaluation_task_queue": "others"}})
    told = unserved_without_servers(queues)
    assert [line.partition(": ")[0] for line in told] == ["execution.evaluation_task_queue", "target.task_queue"]
    own = {"kind": "activity", "activity": "own", "task_queue": "queue"}
    scored = spec | {"scorers": [{**own, "name": "label"}], "optimizer": {"name": "refine", "proposer": own}}
    assert [line.partition(": ")[0] for line in unserved_without_servers(OptimizationRequest.model_validate(scored))] == [
        "target.task_queue",
        "scorers[0].task_queue",
        "optimizer.proposer.task_queue",
    ]
    assert all("start them with `ratchet dev`" in line for line in told)


async def test_every_queue_that_nobody_serves_is_told_whichever_it_is(engines: Engines) -> None:
    spec = yaml.safe_load(changed(PYTHON, "{kind: activity, activity: theirs, task_queue: nobody-here}"))
    request = OptimizationRequest.model_validate(spec)
    named = OptimizationRequest.model_validate(spec | {"execution": {"evaluation_task_queue": "nobody-there"}})

    async def told(asked: OptimizationRequest, queue: str, *, own: bool) -> list[str]:
        return await unserved_queues(Pollers(engines.client, nearby=True), asked, queue, own=own)

    async def fields(asked: OptimizationRequest, queue: str, *, own: bool) -> list[str]:
        return [line.partition(": ")[0] for line in await told(asked, queue, own=own)]

    async with asyncio.timeout(20):
        while await fields(request, "optimization", own=False) != ["target.task_queue"]:
            await asyncio.sleep(0.05)
    assert await fields(named, "optimization", own=True) == ["execution.evaluation_task_queue", "target.task_queue"]
    assert await fields(request, "other", own=True) == ["target.task_queue"]
    assert await fields(request, "other", own=False) == ["execution", "execution", "target.task_queue"]
    workflows, activities, _ = await told(named, "other", own=False)
    assert "workflows of task queue 'other'" in workflows
    assert "activities of task queue 'nobody-there'" in activities
