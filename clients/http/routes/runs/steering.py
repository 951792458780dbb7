"""What may be asked of a run: by signal, by cancellation, by update. The run itself decides, and answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Header
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from clients.http.backend import Backend, RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of, why_unknown
from clients.runs.lookup import TERMINAL
from clients.wire import Done, EndedExperiment, StopWish
from workflows.model.failures import INVALID_REQUEST
from workflows.model.run.contract import Pending
from workflows.model.run.query_answers import UpdateAnswer
from workflows.model.spec.execution import Adjustment

ANSWERED_WITHIN: Final = 15.0
"""Seconds that a worker has to answer an update."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=100,
        pattern=r"^[\w.:-]+$",
        description="Asking again with the same key asks only once, and is answered the same.",
    ),
]

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["steering"], route_class=JsonRoute)


@router.post("/stop", operation_id="stopOptimization", responses=responses(404, 409))
async def stop(run_id: RunId, backend: Served, wish: Annotated[StopWish | None, Body()] = None) -> Done:
    """End a run early: what is in flight finishes, the best is kept, confirmed and reported."""
    async with _open_run(backend, run_id) as (handle, status):
        await handle.signal("stop_early", wish.reason if wish else "")
    told = "asked to stop early: it finishes what is in flight, keeps the best, and reports"
    return Done(optimization_id=run_id, status=status, message=told)


@router.post("/cancel", operation_id="cancelOptimization", responses=responses(404, 409))
async def cancel(run_id: RunId, backend: Served) -> Done:
    """Cancel a run: trials in flight are cut off, and what is known so far is kept."""
    async with _open_run(backend, run_id) as (handle, status):
        await handle.cancel()
    told = "asked to cancel: trials in flight are cut off, and what is known so far is kept"
    return Done(optimization_id=run_id, status=status, message=told)


@router.post("/pause", operation_id="pauseOptimization", responses=responses(404, 409, 504))
async def pause(run_id: RunId, backend: Served, key: IdempotencyKey = None) -> Done:
    """Let a run rest before its next round."""
    return await _update(backend, run_id, "pause", [], key)


@router.post("/resume", operation_id="resumeOptimization", responses=responses(404, 409, 504))
async def resume(run_id: RunId, backend: Served, key: IdempotencyKey = None) -> Done:
    """Let a paused run go on."""
    return await _update(backend, run_id, "resume", [], key)


@router.post("/adjust", operation_id="adjustOptimization", responses=responses(404, 409, 504))
async def adjust(run_id: RunId, backend: Served, adjustment: Adjustment, key: IdempotencyKey = None) -> Done:
    """Change budgets, limits and stop rules of an open run; what is left out stays, and a budget of 0 is unlimited."""
    return await _update(backend, run_id, "adjust", [adjustment.model_dump(mode="json", exclude_none=True)], key)


@router.post("/proposals", operation_id="proposeCandidate", responses=responses(404, 409, 504))
async def propose(run_id: RunId, backend: Served, proposal: Pending, key: IdempotencyKey = None) -> Done:
    """Try a configuration of your own in the next round; factors left out keep the baseline's values."""
    return await _update(backend, run_id, "propose", [proposal.model_dump(mode="json", exclude_none=True)], key)


@router.post("/experiments", operation_id="announceExperiment", responses=responses(404, 409))
async def announce(run_id: RunId, backend: Served, ended: EndedExperiment) -> Done:
    """Tell a trial that its external runner is done, for runners without a Temporal client: it asks the runner at once."""
    if not ended.workflow_id.startswith(f"{run_id}/"):
        raise Refused(
            422, f"workflow_id: is no trial of {run_id}; write the completion.workflow_id of the request", "workflow_id"
        )
    async with _open_run(backend, run_id) as (_, status):
        trial = backend.servers.client.get_workflow_handle(ended.workflow_id)
        await trial.signal("experiment_finished", ended.model_dump(include={"experiment_id", "status"}))
    return Done(optimization_id=run_id, status=status, message="announced: the trial asks its runner")


@asynccontextmanager
async def _open_run(backend: Backend, run_id: str) -> AsyncIterator[tuple[WorkflowHandle[Any, Any], str]]:
    """The handle of a run that is not over, and its status; it may still end while it is asked."""
    execution = await execution_of(backend, run_id)
    row = await backend.reader.runs.progress(run_id)
    if row is None and execution is None:
        raise await why_unknown(backend, run_id)
    if execution is None or execution.status != WorkflowExecutionStatus.RUNNING:
        how = row.status if row is not None and row.status in TERMINAL else "over"
        raise Refused(409, f"{run_id} is {how} already, so nothing can be asked of it", "optimization_id")
    try:
        yield backend.servers.client.get_workflow_handle(run_id), row.status if row is not None else "initialized"
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise Refused(
                409, f"{run_id}, or its trial, has just ended: nothing can be asked of it", "optimization_id"
            ) from None
        raise


async def _update(backend: Backend, run_id: str, name: str, arguments: list[Any], key: str | None) -> Done:
    """Execute an update, which only a worker can answer."""
    async with _open_run(backend, run_id) as (handle, _):
        asking = handle.execute_update(name, args=arguments, id=f"http-{key or uuid.uuid4().hex}", result_type=UpdateAnswer)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):  # the SDK itself would ask for ever
                answer: UpdateAnswer = await asking
        except TimeoutError:
            told = f"no worker answered {name} within {ANSWERED_WITHIN:g} s; it is asked, and counts once a worker runs"
            raise Refused(504, told, retry_after=5) from None
        except WorkflowUpdateFailedError as error:
            raise _refused(name, error) from None
    return Done(optimization_id=run_id, status=answer.status, message=answer.message)


def _refused(name: str, error: WorkflowUpdateFailedError) -> Refused:
    cause = error.cause
    told = cause.message if isinstance(cause, ApplicationError) else str(cause)
    invalid = isinstance(cause, ApplicationError) and cause.type == INVALID_REQUEST and name in ("adjust", "propose")
    closing = "already finishing" in told
    return Refused(422 if invalid and not closing else 409, f"{name} was refused: {told}")
