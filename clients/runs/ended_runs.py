"""Runs that were terminated, timed out or deleted in Temporal: the run cannot say so itself, so whoever looks writes it down.

Being wrong here would call a run over that goes on, so only what is certain counts:

- A workflow id has at most one open execution in a namespace, and what continues as new, is retried or is reset opens the next
  one in the same moment. So a run is over when the newest execution of its id is closed, whatever its own first one did.
- Who lists open executions is some moments behind; each run that is missing there is asked for by its id, which is not.
- Two Temporals may share one PostgreSQL, with namespaces and run ids of the same name. A run notes the id of its namespace,
  which no other server has; runs of older versions did not, and of those only what this Temporal still knows is believed.
- An execution that is not found was deleted, or this server has lost or not yet received it: only a run that is known to be of
  this namespace, and of which nothing was written for a while, counts as deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.exceptions import FailureError
from temporalio.service import RPCError, RPCStatusCode

from store.connection import Database, StoreAway, is_away
from store.events import TERMINATED
from store.write.run_endings import Ended, RunEndings, UnendedRun
from workflows.model.failures import shorten

SECONDS_BETWEEN_LOOKS: Final = 20.0
SECONDS_UNTOUCHED: Final = 30.0
"""For so long nothing must have been written of a run before an execution that is not found counts as deleted."""

SECONDS_ONE_LOOK_MAY_TAKE: Final = 15.0
LONGEST_REASON: Final = 500

WORKFLOW: Final = "OptimizationWorkflow"
OPEN: Final = f"WorkflowType='{WORKFLOW}' AND ExecutionStatus='Running'"

HOW: Final = {
    WorkflowExecutionStatus.TERMINATED: "terminated in Temporal",
    WorkflowExecutionStatus.TIMED_OUT: "timed out in Temporal",
    WorkflowExecutionStatus.FAILED: "its workflow failed before it could write how the run ended",
    WorkflowExecutionStatus.CANCELED: "its workflow was cancelled before it could write how the run ended",
    WorkflowExecutionStatus.COMPLETED: "its workflow completed, but its end is not in this store (restored from a backup?)",
}
"""Every way to be closed. Anything else, with what later servers invent, counts as open."""

DELETED: Final = "its workflow was deleted in Temporal"

log = structlog.get_logger("ended_runs")


async def namespace_id_of(client: Client) -> str:
    """What tells this namespace from all others, on whichever server; empty where the server does not say."""
    try:
        described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except RPCError as error:
        log.info("the namespace does not tell its id; runs that are deleted in Temporal stay as they are", error=str(error))
        return ""
    return described.namespace_info.id


async def look_once(client: Client, database: Database, namespace_id: str | None = None) -> int:
    """Write down the end of every run that ended without doing so. How many; none while somebody else looks."""
    known = await namespace_id_of(client) if namespace_id is None else namespace_id
    endings = RunEndings(database)
    async with endings.looked_after(known) as alone:
        if not alone:
            return 0
        await endings.settle_what_is_over()
        changed = 0
        unended = await endings.unended(known)
        listed = await _listed_as_open(client) if unended else set()
        for run in unended:
            if (run.run_id in listed) == (run.status == TERMINATED):
                changed += await _reconciled(client, endings, run, known)
        return changed


@asynccontextmanager
async def looking_after_ended_runs(
    client: Client, database: Database, *, every: float = SECONDS_BETWEEN_LOOKS
) -> AsyncIterator[None]:
    """Look at once, and again and again until the block is left."""
    looking = asyncio.create_task(_again_and_again(client, database, every))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def look_now(client: Client, database: Database) -> None:
    """Look once, and let nobody wait for long or fail because of it."""
    try:
        async with asyncio.timeout(SECONDS_ONE_LOOK_MAY_TAKE):
            await look_once(client, database)
    except Exception as error:
        _tell(error)


async def _again_and_again(client: Client, database: Database, every: float) -> None:
    while True:
        await look_now(client, database)
        await asyncio.sleep(every * random.uniform(0.8, 1.0))  # so that many workers do not look in step


def _tell(error: Exception) -> None:
    """A server that is away will be back; anything else is a fault, which must not stop what goes on beside it."""
    passes = isinstance(error, RPCError | StoreAway | TimeoutError) or is_away(error)
    (log.info if passes else log.warning)("runs that were ended from outside could not be looked for", error=repr(error))


async def _listed_as_open(client: Client) -> set[str]:
    return {execution.id async for execution in client.list_workflows(OPEN)}


async def _reconciled(client: Client, endings: RunEndings, run: UnendedRun, namespace_id: str) -> bool:
    newest = await _described(client, run.run_id)
    if run.status == TERMINATED:
        goes_on = newest is not None and newest.status is WorkflowExecutionStatus.RUNNING and _continues(newest, run)
        return goes_on and await endings.take_back(run)
    ended = await _end_of(client, run, newest, namespace_id)
    if ended is None:
        return False
    written = await endings.write(run, ended)
    if written:
        log.info("a run was ended from outside", run_id=run.run_id, status=ended.status, message=ended.message)
    return written


async def _end_of(
    client: Client, run: UnendedRun, newest: WorkflowExecutionDescription | None, namespace_id: str
) -> Ended | None:
    """How a run ended; None when it is open, or nothing is certain."""
    is_ours = bool(namespace_id) and run.namespace_id == namespace_id
    if newest is None:
        return Ended("terminated", DELETED) if is_ours and run.untouched > SECONDS_UNTOUCHED else None
    if newest.status not in HOW or newest.workflow_type != WORKFLOW:
        return None
    own: WorkflowExecutionDescription | None = newest
    if not _continues(newest, run):  # a later one of the same id, which left nothing here, or another Temporal's
        own = await _described(client, run.run_id, run.execution_id)
        if own is None and not is_ours:
            return None
    if own is None or own.status not in HOW:
        return Ended("terminated", HOW[WorkflowExecutionStatus.TERMINATED])
    return await _told_by(client, own)


def _continues(execution: WorkflowExecutionDescription, run: UnendedRun) -> bool:
    """Whether an execution is the one that prepared the run, or goes on from it."""
    first = execution.raw_description.workflow_execution_info.first_run_id
    return run.execution_id in (execution.run_id, first)


async def _told_by(client: Client, execution: WorkflowExecutionDescription) -> Ended:
    """How an execution ended, with the reason that was given."""
    assert execution.status is not None
    message, why = HOW[execution.status], await _reason(client, execution)
    match execution.status:
        case WorkflowExecutionStatus.FAILED:
            return Ended("failed", why or message, execution.close_time)
        case WorkflowExecutionStatus.CANCELED:
            return Ended("cancelled", message, execution.close_time)
    return Ended("terminated", f"{message}: {why}" if why else message, execution.close_time)


async def _reason(client: Client, execution: WorkflowExecutionDescription) -> str:
    """What whoever terminated it gave as the reason, or what a failure says."""
    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
    try:
        history = await handle.fetch_history(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    except RPCError:
        return ""
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            return shorten(event.workflow_execution_terminated_event_attributes.reason, LONGEST_REASON)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            error = await client.data_converter.decode_failure(event.workflow_execution_failed_event_attributes.failure)
            return shorten(error.message if isinstance(error, FailureError) else str(error), LONGEST_REASON)
    return ""


async def _described(client: Client, run_id: str, execution_id: str | None = None) -> WorkflowExecutionDescription | None:
    """The newest execution of a run, or a certain one; None when this Temporal has none."""
    try:
        return await client.get_workflow_handle(run_id, run_id=execution_id).describe()
    except RPCError as error:
        of_another = execution_id is not None and error.status is RPCStatusCode.INVALID_ARGUMENT
        if error.status is RPCStatusCode.NOT_FOUND or of_another:
            return None
        raise
