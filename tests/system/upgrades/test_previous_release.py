"""Runs that workers of the release before began end on those of this code, and the other way round."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec
from tests.support.killed_runs import everything_decided
from tests.support.previous_release import PreviousWorker, lives_with_our_schema, unpack_previous_release
from tests.support.upgraded_runs import CALLS_OF_BASELINE, CALLS_OF_ROUND, held, on_a_database_of_its_own, upgraded_spec
from tests.support.worker_processes import WorkerProcess, calls_begun, until

pytestmark = pytest.mark.timeout(300)

ROUNDS, IN_FLIGHT = 4, 4
NAMES = ("short", "long")
SPECS = {
    "upgraded-short": upgraded_spec("short", ROUNDS, seed=5),
    # This one is in its second execution, and its third, when workers change.
    "upgraded-long": upgraded_spec("long", ROUNDS, seed=6, max_rounds_per_execution=1),
}
MIDDLES = range(CALLS_OF_BASELINE + CALLS_OF_ROUND // 4, CALLS_OF_BASELINE + ROUNDS * CALLS_OF_ROUND, CALLS_OF_ROUND)
QUEUE = "upgrades"


@pytest.fixture(scope="module")
def previous_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_previous_release(tmp_path_factory.mktemp("previous_release"))


async def test_open_runs_outlast_the_way_to_this_code_and_back(
    previous_release: Path, unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    client, told = await connect(unserved_stack.temporal_address), {"RATCHET_TASK_QUEUE": QUEUE}

    async def begin() -> list[asyncio.Task[dict[str, object]]]:
        handles = [
            await client.start_workflow("OptimizationWorkflow", given, id=run_id, task_queue=QUEUE)
            for run_id, given in SPECS.items()
        ]
        return [asyncio.create_task(handle.result()) for handle in handles]

    undisturbed, calls = await on_a_database_of_its_own(unserved_stack, "not_upgraded"), tmp_path / "undisturbed"
    before = PreviousWorker(previous_release, undisturbed, calls, told)
    await before.start()
    expected_results = await asyncio.gather(*await begin())
    expected = [await everything_decided(undisturbed, run_id) for run_id in SPECS]
    in_all = calls_begun(calls)
    await before.kill(signal.SIGTERM)

    place, calls = await on_a_database_of_its_own(unserved_stack, "upgraded"), tmp_path / "calls"
    before, after = PreviousWorker(previous_release, place, calls, told), WorkerProcess(place, calls, told=told)
    ends = await begin()
    async with AsyncExitStack() as exits:
        for worker in (before, after):
            exits.push_async_callback(worker.kill)
        await before.start()
        async with held(calls, MIDDLES[0], *NAMES):
            await after.start()  # it migrates, and both serve for a while
            await until(lambda: after.serves)
        async with held(calls, MIDDLES[1], *NAMES):
            await before.kill(signal.SIGTERM)
        if lives_with_our_schema(previous_release):
            async with held(calls, MIDDLES[2], *NAMES):
                await before.start()
                await after.kill(signal.SIGTERM)
            async with held(calls, MIDDLES[3], *NAMES):
                await after.start()
                await before.kill(signal.SIGTERM)
        assert not any(end.done() for end in ends), "nothing was left to be upgraded"
        async with asyncio.timeout(120):
            results = await asyncio.gather(*ends)
        found = [await everything_decided(place, run_id) for run_id in SPECS]

    for wanted, rows in zip(expected, found, strict=True):
        assert {name: rows[name] for name in wanted} == wanted
    for name in ("best_configuration", "spend", "stop_reason"):
        assert [result[name] for result in results] == [result[name] for result in expected_results]
    assert 0 <= calls_begun(calls) - in_all <= 3 * len(SPECS) * IN_FLIGHT


READS = """
import sys
from workflows.model.run.contract import RunInput
RunInput.model_validate_json(sys.stdin.buffer.read())
"""


async def test_what_a_run_takes_along_can_be_read_by_the_release_before(previous_release: Path, engines: Engines) -> None:
    """While both serve, the next execution of a run may begin with the older one."""
    run_id = "taken-along"
    await engines.run(hill_spec(execution={"max_rounds_per_execution": 1}), run_id=run_id)
    inputs: list[bytes] = []
    async for execution in engines.client.list_workflows(f"WorkflowId = '{run_id}'"):
        history = await engines.client.get_workflow_handle(run_id, run_id=execution.run_id).fetch_history()
        [payload] = history.events[0].workflow_execution_started_event_attributes.input.payloads
        inputs.append(payload.data)
    assert len(inputs) > 2
    for given in inputs:
        command = (sys.executable, "-c", READS)
        read = await asyncio.create_subprocess_exec(*command, cwd=previous_release, stdin=PIPE, stderr=PIPE)
        _, complaint = await read.communicate(given)
        assert read.returncode == 0, complaint.decode()
