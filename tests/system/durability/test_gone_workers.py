"""What a killed worker had open is given up by the next one on its machine, before any heartbeat is missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.open_activities import WORKER_GONE
from clients.embedded.stack import StackAddresses
from tests.support.aimed_kills import Calls
from tests.support.killed_runs import spec
from tests.support.worker_processes import repeated, running, until

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
