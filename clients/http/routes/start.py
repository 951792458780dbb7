"""Starting runs: a spec is checked as far as a server can, named by its content, and handed to Temporal."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.datasets import DatasetError, check_items
from activities.preparing.request_check import Busy, problems_of
from clients.http.backend import Backend, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of
from clients.runs.identity import further_ids, run_id_of
from clients.runs.lookup import WORKFLOW
from clients.settings import dataset_settings
from clients.wire import Started
from ratchet._canonical import NotCanonical, canonical_json
from store.write.datasets import Datasets
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

    Plug-ins are those that the workers may import, and a dataset's path is one that they may read.
    """
    try:
        problems = await problems_of(request)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    if problems:
        raise Refused(422, "; ".join(problems[:20]), problems[0].partition(": ")[0])
    try:
        first = await asyncio.to_thread(run_id_of, request, await _dataset_id(backend, request), {}, {})
    except NotCanonical as error:
        raise Refused(422, f"the spec has no canonical form: {error}") from None
    for run_id in further_ids(first):
        execution = await execution_of(backend, run_id)
        row = await backend.reader.runs.progress(run_id)
        is_open = execution is not None and execution.status == WorkflowExecutionStatus.RUNNING
        known = is_open or row is not None
        if not known and await _started(backend, request, run_id):
            return Started(optimization_id=run_id, status="initialized", created=True)
        if not new:
            response.status_code = 200
            return Started(optimization_id=run_id, status=row.status if row is not None else "initialized", created=False)
    raise AssertionError("there is always a further id")


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


async def _dataset_id(backend: Backend, request: OptimizationRequest) -> str:
    """What the dataset contributes to the run's id: its content, or where this process may not read it, its name."""
    given = request.dataset
    if given.items is not None:
        try:
            return (
                await asyncio.to_thread(check_items, given.items, largest_mb=dataset_settings().largest_dataset_mb)
            ).dataset_id
        except DatasetError as error:
            raise Refused(422, str(error), "dataset.items") from None
    if given.files or given.ref is not None:
        return given.ref or given.path or canonical_json(given.paths)
    datasets = Datasets(backend.database)
    found = given.id or await datasets.named(given.name or "")
    if found is None:
        raise Refused(422, f"dataset.name: {given.name!r} is not in the store; add it first", "dataset.name")
    if await datasets.size(found) is None:
        raise Refused(422, f"dataset.id: {found[:12]}… is not in the store; add the dataset first", "dataset.id")
    return found
