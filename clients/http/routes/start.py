"""Starting runs: a spec is checked as far as a server can, named by its content, and handed to Temporal."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.preparing.request_check import Busy, problems_of
from clients.http.backend import Backend, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of
from clients.runs.identity import further_ids, run_id_of
from clients.runs.lookup import WORKFLOW
from clients.wire import Started
from ratchet._canonical import NotCanonical
from workflows.model.spec.request import OptimizationRequest


class SpecRoute(JsonRoute):
    """A path that takes a whole spec."""

    whole = OptimizationRequest


router = APIRouter(prefix="/v1/private/optimizations", tags=["steering"], route_class=SpecRoute)


@router.post("", operation_id="startOptimization", status_code=201, responses=responses(409) | {200: {"model": Started}})
async def start(
    request: OptimizationRequest,
    backend: Served,
    response: Response,
    new: Annotated[
        bool, Query(description="Start another run although this spec runs, or ran before; it is paid for again.")
    ] = False,
) -> Started:
    """Start a run of a spec. The same spec is the same run: one that is there already is named, with 200, and not paid again.

    It is the same as on the command line: with the same data, code of plug-ins and prompt, and another one when any of them
    changed. What this server may not read, only the workers, is named in `unseen`: then its name alone counts. Plug-ins are
    those that the workers may import, and a dataset's path is one that they may read.
    """
    await _refuse_problems(request)
    found = await backend.specs.read(backend.servers, request)
    if found.known is not request:
        await _refuse_problems(found.known)
    try:
        parts = found.known, found.dataset_id, found.fingerprints, found.sources
        first = await asyncio.to_thread(run_id_of, *parts)
    except NotCanonical as error:
        raise Refused(422, f"the spec has no canonical form: {error}") from None
    unseen = found.unseen
    for run_id in further_ids(first):
        execution = await execution_of(backend, run_id)
        row = await backend.reader.runs.progress(run_id)
        is_open = execution is not None and execution.status == WorkflowExecutionStatus.RUNNING
        known = is_open or row is not None
        if not known and await _started(backend, found.asked, run_id):
            backend.open_runs.add(run_id)
            return Started(optimization_id=run_id, status="initialized", created=True, unseen=unseen)
        if not new:
            response.status_code = 200
            status = row.status if row is not None else "initialized"
            return Started(optimization_id=run_id, status=status, created=False, unseen=unseen)
    raise AssertionError("there is always a further id")


async def _refuse_problems(request: OptimizationRequest) -> None:
    try:
        problems = await problems_of(request)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    if problems:
        raise Refused(422, "; ".join(problems[:20]), problems[0].partition(": ")[0])


async def _started(backend: Backend, request: OptimizationRequest, run_id: str) -> bool:
    """False when somebody else was faster."""
    try:
        await backend.servers.client.start_workflow(
            WORKFLOW,
            request.model_dump(mode="json", by_alias=True),
            id=run_id,
            task_queue=backend.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            static_summary=f"optimize {request.name}",
        )
    except WorkflowAlreadyStartedError:
        return False
    return True
