"""What a killed worker had open is given up by the next one on its machine, before any heartbeat is missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client, WorkflowFailureError

from activities.open_activities import WORKER_GONE
from clients.embedded.stack import StackAddresses
from tests.support.aimed_kills import Calls
from tests.support.killed_runs import spec
from tests.support.worker_processes import WorkerProcess, calls_begun, repeated, running, until

pytestmark = pytest.mark.timeout(300)

CONCURRENT = 4


async def test_the_next_attempt_at_a_shard_does_not_wait_until_a_killed_workers_heartbeats_are_missed(
    unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    given = {
        **spec(3),
        "stop": {"max_rounds": 1, "no_improvement": 0},
        "execution": {"concurrent_samples": CONCURRENT},
    }
    async with running(unserved_stack, tmp_path) as (client, worker, calls):
        log = Calls(calls)
        handle = await client.start_workflow("OptimizationWorkflow", given, id="worker-gone", task_queue="optimization")
        await until(lambda: log.begun >= 20 and log.open.total() >= 2)
        await worker.kill()
        await worker.start()
        async with asyncio.timeout(120):
            result = await handle.result()
        failures = [failure async for failure in _failures_of_shards(client, handle.id)]
    assert set(failures) == {WORKER_GONE}
    assert 1 <= repeated(calls) == result["lost"]["samples"] <= CONCURRENT


async def test_what_a_killed_worker_had_in_flight_is_told_also_of_a_run_that_is_cancelled_before_anybody_goes_on(
    unserved_stack: StackAddresses, tmp_path: Path
) -> None:
    given = {**spec(3), "execution": {"concurrent_samples": CONCURRENT}}
    async with running(unserved_stack, tmp_path) as (client, worker, calls):
        log = Calls(calls)
        handle = await client.start_workflow("OptimizationWorkflow", given, id="gone-for-good", task_queue="optimization")
        await until(lambda: log.begun >= 20 and log.open.total() >= 2)
        await worker.kill()
        begun = calls_begun(calls)
        await handle.cancel()
        without_evaluation = WorkerProcess(unserved_stack, calls, told={"RATCHET_ROLE": "workflows"})
        await without_evaluation.start()
        async with asyncio.timeout(60):
            while "conclude_trial" not in [name async for name in _pending(client, handle.id)]:
                await asyncio.sleep(0.1)
        await without_evaluation.kill()
        await worker.start()
        async with asyncio.timeout(120):
            with pytest.raises(WorkflowFailureError):
                await handle.result()
        assert calls_begun(calls) == begun
    answered, told = await _books(unserved_stack, handle.id)
    assert 2 <= begun - answered == told["lost"]["samples"] <= CONCURRENT
    assert told["spend"]["samples"] == answered


async def _pending(client: Client, run_id: str) -> AsyncIterator[str]:
    """Activities of the run's trials that are not done."""
    for child in (await client.get_workflow_handle(run_id).describe()).raw_description.pending_children:
        trial = await client.get_workflow_handle(child.workflow_id).describe()
        for pending in trial.raw_description.pending_activities:
            yield pending.activity_type.name


async def _books(stack: StackAddresses, run_id: str) -> tuple[int, dict[str, Any]]:
    """How many answers are stored, and the run's own result."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        answered = await connection.fetchval("SELECT count(*) FROM answers WHERE run_id = $1", run_id)
        return answered, json.loads(await connection.fetchval("SELECT result FROM runs WHERE run_id = $1", run_id))
    finally:
        await connection.close()


async def _failures_of_shards(client: Client, run_id: str) -> AsyncIterator[str]:
    """Why shards were attempted again: the type of the error, empty for a missed heartbeat."""
    run = await client.get_workflow_handle(run_id).fetch_history()
    started = [event.child_workflow_execution_started_event_attributes for event in run.events]
    for trial_id in [one.workflow_execution.workflow_id for one in started if one.workflow_execution.workflow_id]:
        trial = await client.get_workflow_handle(trial_id).fetch_history()
        for event in trial.events:
            attempt = event.activity_task_started_event_attributes
            if attempt.attempt > 1:
                yield attempt.last_failure.application_failure_info.type
