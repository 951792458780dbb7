"""What is told of a run that the store does not know: it waits for a worker, was refused before it began, or never was."""

from __future__ import annotations

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.runs.lookup import WORKFLOW
from clients.runs.views.waits import pollers_of, queues_waited_for, told_waits
from store.read.rows.run_rows import LiveProgress
from workflows.search_attributes import STATUS


async def existing_run(backend: Backend, run_id: str) -> LiveProgress:
    """The run's row, or a refusal that says why there is none."""
    row = await backend.reader.runs.progress(run_id)
    if row is None:
        raise await why_unknown(backend, run_id)
    return row


async def refuse_unknown_run(backend: Backend, run_id: str) -> None:
    """Pass when there is such a run: in the store, or accepted by Temporal and on its way there."""
    if not await backend.reader.runs.is_known(run_id) and await unstored_execution(backend, run_id) is None:
        raise unknown_run(run_id)


async def execution_of(backend: Backend, run_id: str) -> WorkflowExecutionDescription | None:
    """What Temporal knows of a run; None when it knows nothing, or knows something else by that id."""
    try:
        description = await backend.servers.client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return None
        raise
    return description if description.workflow_type == WORKFLOW else None


async def unstored_execution(backend: Backend, run_id: str) -> WorkflowExecutionDescription | None:
    """What Temporal knows of a run that is not in the store; None where it was, and has been deleted.

    A run gets its search attributes once it is in the store; on a server without them, one that completed was there.
    """
    execution = await execution_of(backend, run_id)
    if execution is None or execution.status == WorkflowExecutionStatus.RUNNING:
        return execution
    began = execution.typed_search_attributes.get(STATUS) is not None or execution.status == WorkflowExecutionStatus.COMPLETED
    return None if began else execution


def unknown_run(run_id: str) -> Refused:
    """Neither the store nor Temporal knows it."""
    told = f"there is no run {run_id!r}; GET /v1/private/optimizations lists those there are"
    return Refused(404, told, "optimization_id")


async def why_unknown(backend: Backend, run_id: str) -> Refused:
    """Why something that only the store could tell is not known of a run."""
    execution = await unstored_execution(backend, run_id)
    if execution is None:
        return unknown_run(run_id)
    told, _ = await standing_of(backend, execution)
    is_open = execution.status == WorkflowExecutionStatus.RUNNING
    return Refused(409, told, "optimization_id", retry_after=1 if is_open else None)


async def standing_of(backend: Backend, execution: WorkflowExecutionDescription) -> tuple[str, tuple[str, ...]]:
    """How a run stands that is not in the store, in a sentence, and the task queues that it waits for."""
    if execution.status != WorkflowExecutionStatus.RUNNING:
        return f"{execution.id} was refused before it began: {await _reason(backend, execution.id)}", ()
    waits = await queues_waited_for(backend.servers, execution, pollers_of(backend.servers))
    doing = f"waits for {told_waits(waits)}" if waits else "is being prepared"
    return f"{execution.id} has not begun: it {doing}", waits


async def refused_before_it_began(backend: Backend, run_id: str) -> str | None:
    """Why a run will never be in the store, in a sentence; None where it is there, or still may be."""
    execution = await execution_of(backend, run_id)
    if execution is None or execution.status == WorkflowExecutionStatus.RUNNING:
        return None
    if await backend.reader.runs.is_known(run_id):
        return None
    return (await standing_of(backend, execution))[0]


async def _reason(backend: Backend, run_id: str) -> str:
    try:
        await backend.servers.client.get_workflow_handle(run_id).result()
    except WorkflowFailureError as error:
        return error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
    return "it left nothing in the store"
