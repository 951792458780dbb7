"""Two versions of the workers serve side by side: what began on one ends on it, and a run moves to the other between rounds."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError

from clients.embedded.stack import StackAddresses
from clients.runs.service.deployments import ServedVersion, route_to, served_queue
from clients.temporal import connect
from tests.support.killed_runs import everything_decided
from tests.support.upgraded_runs import (
    CALLS_OF_BASELINE,
    CALLS_OF_ROUND,
    held,
    on_a_database_of_its_own,
    served_by,
    upgraded_spec,
)
from tests.support.worker_processes import WorkerProcess, repeated
from workflows.model.spec.release import ReleaseRequest, ReleaseRequests, release_workflow_id

pytestmark = pytest.mark.timeout(300)

RUN_ID, ROUNDS = "moved", 4
ONE, TWO = (WorkerDeploymentVersion("ratchet-test", build) for build in ("one", "two"))
QUEUE = {"RATCHET_TASK_QUEUE": "versions"}
MIDDLE = CALLS_OF_ROUND // 4
"""Calls of a round that were made when another version becomes the current one."""


async def test_a_run_moves_between_rounds_and_back_and_decides_as_if_nothing_had_happened(
    unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    client, given = await connect(unserved_stack.temporal_address), upgraded_spec("moved", ROUNDS)
    undisturbed = await on_a_database_of_its_own(unserved_stack, "moved_undisturbed")
    alone = WorkerProcess(undisturbed, tmp_path / "undisturbed", told={"RATCHET_TASK_QUEUE": "unversioned"})
    await alone.start()
    expected_result = await client.execute_workflow("OptimizationWorkflow", given, id=RUN_ID, task_queue="unversioned")
    expected = await everything_decided(undisturbed, RUN_ID)
    await alone.kill(signal.SIGTERM)

    place, calls = await on_a_database_of_its_own(unserved_stack, "moved"), tmp_path / "calls"
    async with AsyncExitStack() as exits:
        pid: dict[str, int] = {}
        for version in (ONE, TWO):
            told = QUEUE | {"RATCHET_DEPLOYMENT": version.deployment_name, "RATCHET_BUILD_ID": version.build_id}
            worker = WorkerProcess(place, calls, told=told)
            await worker.start()
            exits.push_async_callback(worker.kill, signal.SIGTERM)
            pid[version.build_id] = worker.pid
        await route_to(client, ONE)
        handle = await client.start_workflow("OptimizationWorkflow", given, id=RUN_ID, task_queue="versions")
        async with held(calls, CALLS_OF_BASELINE + MIDDLE, "moved"):
            await route_to(client, TWO)
            while (seen := await served_queue(client, "versions")).current != TWO:
                await asyncio.sleep(0.1)  # each task queue is told of it
        async with held(calls, CALLS_OF_BASELINE + 2 * CALLS_OF_ROUND + MIDDLE, "moved"):
            await route_to(client, ONE)
            while (await served_queue(client, "versions")).current != ONE:
                await asyncio.sleep(0.1)
        async with asyncio.timeout(120):
            result = await handle.result()
        found, served = await everything_decided(place, RUN_ID), await served_by(client, RUN_ID)

    for name, rows in expected.items():
        assert found[name] == rows, f"{name} differ"
    assert result["best_configuration"] == expected_result["best_configuration"]
    assert result["spend"] == expected_result["spend"]
    assert repeated(calls) == 0
    assert [execution.builds for execution in served["run"]] == [("one",), ("two",), ("one",)]
    by_round = {round_: {trial.builds for trial in trials} for round_, trials in served.items() if round_ != "run"}
    assert by_round == {"r0": {("one",)}, "r1": {("one",)}, "r2": {("two",)}, "r3": {("two",)}, "r4": {("one",)}}
    for trial in (trial for round_, trials in served.items() if round_ != "run" for trial in trials):
        assert trial.pids == {pid[build] for build in trial.builds}, "an answer came from another version than its trial's"
    assert (seen.unversioned, seen.polled, seen.current) == (False, (ONE, TWO), TWO)
    assert ServedVersion("two", "current") in seen.versions


async def test_whoever_has_the_code_of_a_run_serves_it_whatever_version_decides(
    unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    """As a worker with plug-ins does that `ratchet run` brings along: its task queue is in no deployment."""
    client, calls = await connect(unserved_stack.temporal_address), tmp_path / "calls"
    place = await on_a_database_of_its_own(unserved_stack, "moved_plugins")
    decides = WorkerDeploymentVersion("ratchet-plugins", "one")
    versioned = {
        "RATCHET_DEPLOYMENT": decides.deployment_name,
        "RATCHET_BUILD_ID": decides.build_id,
        "RATCHET_ROLE": "workflows",
    }
    allowed = {"RATCHET_TASK_QUEUE": "plugins", "RATCHET_EVALUATION_QUEUES": "plugins-code"}
    evaluates = {"RATCHET_ROLE": "evaluation", "RATCHET_EVALUATION_TASK_QUEUE": "plugins-code"}
    async with AsyncExitStack() as exits:
        for told in (evaluates, versioned):
            worker = WorkerProcess(place, calls, told=allowed | told)
            await worker.start()
            exits.push_async_callback(worker.kill, signal.SIGTERM)
        assert await worker.run("--make-current") == 0
        given = upgraded_spec("plugins", 1, evaluation_task_queue="plugins-code")
        async with asyncio.timeout(120):
            result = await client.execute_workflow("OptimizationWorkflow", given, id="plugins", task_queue="plugins")
        served = await served_by(client, "plugins")
    assert result["status"] == "completed"
    assert [execution.builds for execution in served["run"]] == [("one",)]
    assert {trial.builds for trial in served["r1"]} == {("one",)}


async def test_the_writer_of_a_prompt_moves_once_nothing_is_being_handled(
    unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    client, place = (
        await connect(unserved_stack.temporal_address),
        await on_a_database_of_its_own(unserved_stack, "moved_writer"),
    )
    one, two = (WorkerDeploymentVersion("ratchet-writer", build) for build in ("one", "two"))
    writer, prompt = release_workflow_id("moved/writer"), "moved/writer"
    async with AsyncExitStack() as exits:
        for version in (one, two):
            told = {"RATCHET_DEPLOYMENT": version.deployment_name, "RATCHET_BUILD_ID": version.build_id}
            worker = WorkerProcess(place, tmp_path / version.build_id, told=told | {"RATCHET_TASK_QUEUE": "writers"})
            await worker.start()
            exits.push_async_callback(worker.kill, signal.SIGTERM)
        await route_to(client, one)
        desk = ReleaseRequests(prompt=prompt, idle=timedelta(minutes=10))
        handle = await client.start_workflow("ReleaseWorkflow", desk, id=writer, task_queue="writers")
        numbers = count()

        async def ask() -> None:
            """For a release of a prompt that is not there: it is handled all the same."""
            asked = ReleaseRequest(release_id=f"r{next(numbers)}", prompt=prompt)
            with suppress(WorkflowUpdateFailedError, RPCError):  # it may be about to move
                await handle.execute_update("request", asked)

        await ask()
        await route_to(client, two)
        async with asyncio.timeout(60):
            # It may move on once more as it was: its server learns of the way to the new one a little later.
            while (builds := [one.builds for one in (await served_by(client, writer))["run"]])[-1] != ("two",):
                await ask()
        await handle.terminate()
    assert (builds[0], builds) == (("one",), sorted(builds)), "each is served by one build, and none goes back"
