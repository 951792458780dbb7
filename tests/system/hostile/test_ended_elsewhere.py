"""A run that is ended in Temporal cannot say so itself: no view may go on calling it running, nor call over what goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from clients.http.access.security import Trust
from clients.http.app import serving_http
from clients.replay.from_store import replay_store
from clients.reports.history.read import facts_from
from clients.reports.history.write import history_of
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.text.boxes import box
from clients.runs.ended_runs import look_once, namespace_id_of
from clients.runs.service.servers import Servers
from store.read.reader import StoreReader
from store.read.replay_records import RecordedOutcomes
from tests.support.engines import Engines

WHY = "somebody\x1b[31m did not like it"


@workflow.defn(name="OptimizationWorkflow")
class GoesOn:
    """The next execution of a run: it waits."""

    @workflow.run
    async def run(self, given: Any) -> None:
        if given == "continue":
            workflow.continue_as_new("wait")
        await workflow.wait_condition(lambda: False)


async def begun(engines: Engines, spec: dict[str, Any], **parts: Any) -> WorkflowHandle[Any, Any]:
    """A run at work, with answers of its baseline stored."""
    started = await engines.start(spec | {"name": f"ended-{uuid.uuid4().hex[:8]}", "stop": {"max_rounds": 500}} | parts)
    async with asyncio.timeout(60):
        while not await of(engines, started.id, "round"):
            await asyncio.sleep(0.02)
    return engines.client.get_workflow_handle(started.id)


async def of(engines: Engines, run_id: str, column: str) -> Any:
    async with engines.database.connection() as connection:
        return await connection.fetchval(f"SELECT {column} FROM runs WHERE run_id = $1", run_id)


async def set_back(engines: Engines, run_id: str, change: str) -> None:
    async with engines.database.connection() as connection:
        await connection.execute(f"UPDATE runs SET {change} WHERE run_id = $1", run_id)


async def look(engines: Engines) -> int:
    """As every worker looks; another one may be at it."""
    async with asyncio.timeout(30):
        return await look_once(engines.client, engines.database)


async def ended(engines: Engines, run_id: str) -> str:
    """Its status, once somebody has looked: the session's worker looks as well."""
    async with asyncio.timeout(30):
        while (status := await of(engines, run_id, "status")) in ("initialized", "running", "paused"):
            await look(engines)
            await asyncio.sleep(0.02)
    return str(status)


async def looked_at_in_vain(engines: Engines, run_id: str) -> str:
    """Its status, after whole looks of ours."""
    for _ in range(3):
        await look(engines)
    return str(await of(engines, run_id, "status"))


async def events_of(engines: Engines, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, event.payload) for event in await StoreReader(engines.database).events.after(run_id, limit=10_000)]


@pytest.fixture
async def http(engines: Engines) -> AsyncIterator[httpx.AsyncClient]:
    at = engines.addresses
    servers = Servers(engines.client, engines.database, at.database_url, at.temporal_address, at.namespace, None, embedded=True)
    async with (
        serving_http(servers, Trust.of("127.0.0.1", None), "optimization", port=0) as address,
        httpx.AsyncClient(base_url=f"{address.url}/v1/private", timeout=30) as client,
    ):
        yield client


async def test_no_view_goes_on_calling_a_terminated_run_running(
    engines: Engines, spec: Callable[..., dict[str, Any]], http: httpx.AsyncClient
) -> None:
    run = await begun(engines, spec())
    await run.terminate(reason=WHY)
    assert await ended(engines, run.id) == "terminated"

    reader = StoreReader(engines.database)
    assert run.id in {row.run_id for row in await reader.runs.page(status="terminated")}
    async with engines.database.connection() as connection:
        seen = await connection.fetchrow("SELECT status, running, message FROM run_overview WHERE run_id = $1", run.id)
    assert seen is not None and (seen["status"], seen["running"]) == ("terminated", 0) and "did not like it" in seen["message"]

    shown = (await http.get(f"/optimizations/{run.id}")).json()
    assert (shown["status"], shown["execution"], shown["counts"]["running"]) == ("terminated", "closed", 0)
    listed = (await http.get("/optimizations", params={"status": "terminated", "search": run.id})).json()
    assert [item["optimization_id"] for item in listed["items"]] == [run.id]
    refused = await http.post(f"/optimizations/{run.id}/pause", json={})
    assert refused.status_code == 409 and "terminated" in refused.text

    happened = await events_of(engines, run.id)
    assert [payload["status"] for kind, payload in happened if kind == "run_status_changed"][-1] == "terminated"
    assert [payload["status"] for kind, payload in happened if kind == "run_finished"] == ["terminated"]

    report = await reader.runs.report(run.id)
    assert report is not None
    facts = facts_of(report)
    for text in (box(facts), markdown(facts)):
        told = " ".join(text.replace("║", " ").split())
        assert "TERMINATED" in told and "terminated in Temporal: somebody" in told and "not yet" not in told
        assert "\x1b" not in text
    back = facts_from(history_of(facts))
    assert (back.status, back.message) == ("terminated", facts.message)


async def test_a_terminated_run_is_gone_through_again_taken_over_and_deleted(
    engines: Engines, spec: Callable[..., dict[str, Any]], http: httpx.AsyncClient
) -> None:
    run = await begun(engines, spec(budget={"samples": 100_000}))
    await run.terminate()
    assert await ended(engines, run.id) == "terminated"
    async with asyncio.timeout(60):  # its trials hear of it, and say how they ended
        while await of(engines, run.id, "(SELECT count(*) FROM budget_leases l WHERE l.run_id = runs.run_id)"):
            await asyncio.sleep(0.05)
            await set_back_leases(engines, run.id)
            await look(engines)
    report = await StoreReader(engines.database).runs.report(run.id)
    assert report is not None
    found, _ = await replay_store(report, RecordedOutcomes(engines.database))
    assert found == []
    paid = await of(engines, run.id, "(SELECT count(*) FROM outcomes o WHERE o.run_id = runs.run_id AND o.reused_from IS NULL)")
    assert await of(engines, run.id, "paid_samples") == paid

    again = await engines.run(spec(name="again", stop={"max_rounds": 1}, retry_of=run.id))
    assert again["status"] == "completed" and again["reused"] > 0
    assert (await http.delete(f"/optimizations/{run.id}")).status_code == 200
    assert await of(engines, run.id, "status") is None


async def set_back_leases(engines: Engines, run_id: str) -> None:
    """As if half a minute had gone by without a word of whoever holds them."""
    async with engines.database.connection() as connection:
        await connection.execute(
            "UPDATE budget_leases SET renewed_at = renewed_at - interval '31 seconds' WHERE run_id = $1", run_id
        )


async def test_what_a_terminated_run_had_set_aside_is_given_back(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    run = await begun(engines, spec(budget={"samples": 100_000}))
    await run.terminate()
    assert await ended(engines, run.id) == "terminated"
    async with asyncio.timeout(60):  # a shard in flight settles what it holds when it hears of the end
        while await of(engines, run.id, "(SELECT count(*) FROM budget_leases l WHERE l.run_id = runs.run_id)"):
            await asyncio.sleep(0.05)
    async with engines.database.connection() as connection:
        await connection.execute(
            """
            INSERT INTO budget_leases (run_id, holder, nonce, held_samples, held_tokens, held_cost, spent_samples, spent_tokens,
                                       spent_cost, lost_samples, lost_tokens, lost_cost, exceeded, exclusive, idle, waiting,
                                       attempt, candidate_id, trial_id, renewed_at)
            VALUES ($1, 'somebody who died', 'n', 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, false, false, false, 1, '', '',
                    now() - interval '31 seconds')
            """,
            run.id,
        )
        before = await connection.fetchrow("SELECT spent_samples, lost_samples FROM budgets WHERE run_id = $1", run.id)
    async with asyncio.timeout(30):
        while await of(engines, run.id, "(SELECT count(*) FROM budget_leases l WHERE l.run_id = runs.run_id AND nonce = 'n')"):
            await look(engines)
    async with engines.database.connection() as connection:
        after = await connection.fetchrow("SELECT spent_samples, lost_samples FROM budgets WHERE run_id = $1", run.id)
    assert before is not None and after is not None
    assert (after["spent_samples"] - before["spent_samples"], after["lost_samples"] - before["lost_samples"]) == (2, 3)


async def test_no_run_is_over_that_timed_out_unseen(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    started = await engines.client.start_workflow(
        "OptimizationWorkflow",
        spec(name="timed-out", stop={"max_rounds": 500}),
        id=f"timed-out-{uuid.uuid4().hex[:8]}",
        task_queue="optimization",
        execution_timeout=timedelta(seconds=2),
    )
    async with asyncio.timeout(60):
        while await of(engines, started.id, "status") is None:
            await asyncio.sleep(0.02)
        while (await started.describe()).close_time is None:
            await asyncio.sleep(0.1)
    assert await ended(engines, started.id) == "terminated"
    assert await of(engines, started.id, "message") == "timed out in Temporal"


async def test_a_run_that_was_deleted_in_temporal_is_over_once_nothing_was_written_for_a_while(
    engines: Engines, spec: Callable[..., dict[str, Any]]
) -> None:
    run = await begun(engines, spec())
    await run.terminate()
    await set_back(engines, run.id, "status = 'paused', finished_at = NULL, namespace_id = 'of another server for the moment'")
    await deleted(engines, run)
    own = await namespace_id_of(engines.client)
    await set_back(engines, run.id, f"updated_at = now() + interval '1 hour', namespace_id = '{own}'")
    assert await looked_at_in_vain(engines, run.id) == "paused"
    await set_back(engines, run.id, "updated_at = now() - interval '31 seconds'")
    assert await ended(engines, run.id) == "terminated"
    assert "deleted in Temporal" in await of(engines, run.id, "message")


async def deleted(engines: Engines, run: WorkflowHandle[Any, Any]) -> None:
    await engines.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=engines.client.namespace, workflow_execution=WorkflowExecution(workflow_id=run.id)
        )
    )
    async with asyncio.timeout(60):
        while True:
            try:
                await run.describe()
            except RPCError:
                return
            await asyncio.sleep(0.05)


async def test_a_run_of_another_temporal_over_the_same_store_is_left_alone(
    engines: Engines, spec: Callable[..., dict[str, Any]]
) -> None:
    run = await begun(engines, spec())
    await run.terminate()
    stranger = uuid.uuid4()
    alive = f"status = 'running', finished_at = NULL, execution_id = '{stranger}', updated_at = now() - interval '1 day'"
    await set_back(engines, run.id, f"namespace_id = 'of another server', {alive}")
    assert await looked_at_in_vain(engines, run.id) == "running"
    await set_back(engines, run.id, f"namespace_id = '', {alive}")  # stored before namespaces were noted
    assert await looked_at_in_vain(engines, run.id) == "running"
    await set_back(engines, run.id, f"namespace_id = '{await namespace_id_of(engines.client)}'")
    assert await ended(engines, run.id) == "terminated"


async def test_a_run_of_an_older_version_is_known_by_its_execution(
    engines: Engines, spec: Callable[..., dict[str, Any]]
) -> None:
    run = await begun(engines, spec())
    await set_back(engines, run.id, "namespace_id = ''")
    await run.terminate()
    assert await ended(engines, run.id) == "terminated"


async def test_no_run_is_called_over_that_continues_as_new(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    run = await begun(engines, spec())
    await run.terminate()
    queue = f"goes-on-{uuid.uuid4().hex[:8]}"
    async with Worker(
        engines.client, task_queue=queue, workflows=[GoesOn], workflow_runner=UnsandboxedWorkflowRunner(), identity=queue
    ):
        first = await engines.client.start_workflow(
            "OptimizationWorkflow",
            "continue",
            id=run.id,
            task_queue=queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        )
        async with asyncio.timeout(30):
            while (await run.describe()).run_id == first.first_execution_run_id:
                await asyncio.sleep(0.02)
        alive = "status = 'running', finished_at = NULL, updated_at = now() - interval '1 day'"
        await set_back(engines, run.id, f"execution_id = '{first.first_execution_run_id}', {alive}")
        assert await looked_at_in_vain(engines, run.id) == "running"
        await run.terminate(reason="enough")
        assert await ended(engines, run.id) == "terminated"
        assert await of(engines, run.id, "message") == "terminated in Temporal: enough"


def trials_at_work(run_id: str) -> str:
    return f"WorkflowType = 'TrialWorkflow' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{run_id}/'"


def between_trials(history: WorkflowHistory) -> int:
    """The last task of a run that waited for no trial: a reset to another one would wait for a trial that is over."""
    pending, found, seen = 0, 0, 0
    for event in history.events:
        if event.HasField("workflow_task_completed_event_attributes") and not pending and seen:
            found = event.event_id
        pending += event.HasField("start_child_workflow_execution_initiated_event_attributes")
        if event.HasField("child_workflow_execution_completed_event_attributes"):
            pending, seen = pending - 1, seen + 1
    return int(found)


async def test_a_terminated_run_that_is_reset_goes_on_everywhere(engines: Engines, spec: Callable[..., dict[str, Any]]) -> None:
    run = await begun(engines, spec(execution={"max_rounds_per_execution": 1_000}))
    await run.terminate()
    assert await ended(engines, run.id) == "terminated"
    async with asyncio.timeout(60):
        while [one async for one in engines.client.list_workflows(trials_at_work(run.id))]:
            await asyncio.sleep(0.05)
    await engines.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=engines.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=(await run.describe()).run_id),
            reason="it was a mistake",
            workflow_task_finish_event_id=between_trials(await run.fetch_history()),
            request_id=uuid.uuid4().hex,
        )
    )
    async with asyncio.timeout(60):
        while await of(engines, run.id, "status") != "running":
            await look(engines)
            await asyncio.sleep(0.05)
    assert await of(engines, run.id, "finished_at") is None
    await run.signal("stop_early")
    assert (await run.result())["status"] == "completed"
    assert await of(engines, run.id, "status") == "completed"
    told = [payload["status"] for kind, payload in await events_of(engines, run.id) if kind == "run_status_changed"]
    assert told[-3:] == ["terminated", "running", "completed"]


async def test_a_run_that_ends_by_itself_meanwhile_keeps_its_own_end(
    engines: Engines, spec: Callable[..., dict[str, Any]]
) -> None:
    result = await engines.run(spec(name=f"by-itself-{uuid.uuid4().hex[:8]}"))
    assert await looked_at_in_vain(engines, result["optimization_id"]) == "completed"
