"""What a run is told between two of its executions, while nobody serves it, is neither lost nor undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage as Stage
from temporalio.api.update.v1 import UpdateRef, WaitPolicy
from temporalio.api.workflowservice.v1 import PollWorkflowExecutionUpdateRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.settings import Settings
from tests.support.allowed import OPERATOR
from tests.support.engines import PLUGINS, Engines
from worker import serving

NOBODYS_QUEUE = "nobody-yet"


@workflow.defn(name="OptimizationWorkflow")
class ContinuesElsewhere:
    """The execution before: it goes on as what it is given, on a task queue that nobody serves yet."""

    @workflow.run
    async def run(self, carried: Any) -> None:
        workflow.continue_as_new(carried, task_queue=NOBODYS_QUEUE)


async def continued(engines: Engines, spec: dict[str, Any], **changes: Any) -> WorkflowHandle[Any, Any]:
    """A run whose next execution waits for a worker; `changes` are applied to what it carries."""
    started = await engines.start(spec | {"execution": {"max_rounds_per_execution": 1}})
    handle = engines.client.get_workflow_handle(started.id)
    async with asyncio.timeout(30):
        while (await handle.describe()).run_id == started.first_execution_run_id:
            await asyncio.sleep(0.01)
    second = await engines.client.get_workflow_handle(started.id, run_id=(await handle.describe()).run_id).fetch_history()
    await handle.terminate()
    [begun] = [event for event in second.events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED]
    given = json.loads(begun.workflow_execution_started_event_attributes.input.payloads[0].data)
    given["carried"] |= changes
    queue = "before"
    async with Worker(
        engines.client, task_queue=queue, workflows=[ContinuesElsewhere], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        first = await engines.client.start_workflow(
            "OptimizationWorkflow",
            given,
            id=started.id,
            task_queue=queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
        async with asyncio.timeout(30):
            while (await handle.describe()).run_id == first.first_execution_run_id:
                await asyncio.sleep(0.01)
    return handle


async def told(client: Client, handle: WorkflowHandle[Any, Any], update: str, *given: Any) -> asyncio.Task[Any]:
    """Send an update to a run that nobody serves; the server has it when this returns."""
    sending = asyncio.ensure_future(handle.execute_update(update, args=given, id=update))
    reference = UpdateRef(workflow_execution=WorkflowExecution(workflow_id=handle.id), update_id=update)
    asked = PollWorkflowExecutionUpdateRequest(
        namespace=client.namespace,
        update_ref=reference,
        wait_policy=WaitPolicy(lifecycle_stage=Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_UNSPECIFIED),
    )
    async with asyncio.timeout(30):
        while True:
            try:
                await client.workflow_service.poll_workflow_execution_update(asked)
            except RPCError:
                await asyncio.sleep(0.01)
            else:
                return sending


@asynccontextmanager
async def somebody(engines: Engines) -> AsyncIterator[None]:
    settings = Settings(
        engines.addresses.database_url,
        operator=OPERATOR,
        task_queue=NOBODYS_QUEUE,
        evaluation_task_queue=f"{NOBODYS_QUEUE}-evaluation",
        plugins="plugged",
        plugin_path=PLUGINS,
        grace=timedelta(seconds=1),
    )
    async with serving(engines.client, settings):
        yield


@pytest.fixture
def endless(spec: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """A run whose optimizer asks nobody, so that nothing but messages makes it write its limits."""
    return spec(name="between", stop={"max_rounds": 40, "no_improvement": 0})


async def test_new_limits_reach_the_store_before_they_are_acknowledged(engines: Engines, endless: dict[str, Any]) -> None:
    run = await continued(engines, endless)
    sending = await told(engines.client, run, "adjust", {"budget": {"samples": 1_000}, "max_rounds": 3})
    async with somebody(engines):
        assert (await sending)["message"].startswith("adjusted")
        async with engines.database.connection() as connection:
            limits = json.loads(await connection.fetchval("SELECT limits FROM runs WHERE run_id = $1", run.id))
            budget = await connection.fetchval("SELECT limit_samples FROM budgets WHERE run_id = $1", run.id)
        assert (limits["budget"]["samples"], limits["stop"]["max_rounds"], budget) == (1_000, 3, 1_000)
        assert (await run.result())["rounds"] == 3


async def test_a_run_that_was_told_to_go_on_does_not_rest(engines: Engines, endless: dict[str, Any]) -> None:
    run = await continued(engines, endless, paused=True)
    sending = await told(engines.client, run, "resume")
    async with somebody(engines):
        assert (await sending)["message"] == "going on"
        seen = await run.query("progress")
        async with asyncio.timeout(30):
            while seen["status"] != "paused" and seen["round"] < 5:
                await asyncio.sleep(0.01)
                seen = await run.query("progress")
        assert seen["status"] == "running"
        await run.signal("stop_early")
        assert (await run.result())["stop_reason"] == "stopped_early"
