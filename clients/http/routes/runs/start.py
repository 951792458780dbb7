"""Starting runs: a spec is checked as far as a server can, named by its content, and handed to Temporal."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.endpoints.endpoint_policy import OperatorLists
from activities.preparing.default_prices import default_prices
from activities.preparing.factor_files import FactorFileMissing, FactorFiles, keep_factor_files
from activities.preparing.request_check import Busy, problems_of
from clients.http.access.audited_requests import Noted
from clients.http.access.callers import CalledBy, HttpCaller
from clients.http.access.roles import deed_by
from clients.http.backend import Backend, RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of, why_unknown
from clients.http.spec_contents import SpecContents
from clients.runs.answered_run import NotRescored, answered_run
from clients.runs.identity import further_ids, run_id_of
from clients.runs.lookup import WORKFLOW, noted_as_written
from clients.settings import operator_settings
from clients.wire import Started
from ratchet._formats.canonical import NotCanonical
from store.read.access.access_tokens import Role
from store.write.access.audit_log import AuditLog
from store.write.access.teams import Teams
from workflows.fair_shares import share_of
from workflows.model.spec.request import OptimizationRequest

New = Annotated[bool, Query(description="Start another run although this spec runs, or ran before; it is paid for again.")]


class SpecRoute(JsonRoute):
    """A path that takes a whole spec."""

    whole = OptimizationRequest


router = APIRouter(prefix="/v1/private/optimizations", tags=["steering"], route_class=SpecRoute)


@router.post("", operation_id="startOptimization", status_code=201, responses=responses(409) | {200: {"model": Started}})
async def start(
    request: OptimizationRequest,
    backend: Served,
    caller: CalledBy,
    noted: Noted,
    response: Response,
    new: New = False,
) -> Started:
    """Start a run of a spec. The same spec is the same run: one that is there already is named, with 200, and not paid again.

    It is the same as on the command line: with the same data, code of plug-ins and prompt, and another one when any of them
    changed. What this server may not read, only the workers, is named in `unseen`: then its name alone counts. Plug-ins are
    those that the workers may import, and a dataset's path is one that they may read.
    """
    refuse_own_release(request, caller)
    started = await start_for(backend, request, response, caller.team, new=new)
    noted.run_id = started.optimization_id
    return started


async def start_for(
    backend: Backend,
    request: OptimizationRequest,
    response: Response,
    team: str,
    *,
    new: bool = False,
    written: str | None = None,
) -> Started:
    """Start a team's run of a spec, or name the one that there is. `written` is the spec as its author wrote it."""
    found = await read_contents(backend, request, team)
    return await _started_once(backend, found, response, team, new=new, written=written)


@router.post(
    "/{optimization_id}/rescore",
    operation_id="rescoreOptimization",
    status_code=201,
    responses=responses(404, 409) | {200: {"model": Started}},
)
async def rescore(
    run_id: RunId, request: OptimizationRequest, backend: Served, caller: CalledBy, response: Response
) -> Started:
    """Score the answers of a finished run anew: a new run with its candidates, judged by this spec, and no target call.

    The spec is that of the run but for scorers, objective, judgement and prices. An answer that the run did not get is missing.
    """
    refuse_own_release(request, caller)
    team = await backend.reader.teams.of_run(run_id)
    found = await read_contents(backend, request, team)
    if not await backend.reader.runs.is_known(run_id):
        raise await why_unknown(backend, run_id)
    try:
        source = await answered_run(backend.reader, run_id)
        source.refuse_other_answers(found.known, found.dataset_id)
    except NotRescored as error:
        raise Refused(409, str(error), "optimization_id") from None
    found = replace(found, asked=source.scored_by(found.asked), known=source.scored_by(found.known))
    started = await _started_once(backend, found, response, team, new=False)
    await AuditLog(backend.database).add(deed_by(caller, "start", started.optimization_id), "done")  # the new run's own entry
    return started


def refuse_own_release(request: OptimizationRequest, caller: HttpCaller) -> None:
    """A run that releases its winner by itself does what only a role for releases may do."""
    releases_itself = request.release is not None and request.release.mode == "automatic"
    if releases_itself and not caller.role.covers(Role.RELEASE):
        told = f"automatic needs a token with the role 'release', and yours, {caller.name!r}, has {caller.role.value!r}"
        raise Refused(403, f"release.mode: {told}; `approval` leaves it to somebody who has one", "release.mode")


async def read_contents(backend: Backend, request: OptimizationRequest, team: str) -> SpecContents:
    """The spec with all that it refers to; what is wrong with it is refused, and what another team has is not there."""
    await refuse_problems(request)
    for problem in await backend.reader.teams.foreign_parts(team, request):
        raise Refused(422, problem, problem.partition(": ")[0])
    found = await backend.specs.read(backend.servers, request, team)
    if found.known is not request:
        await refuse_problems(found.known)
    return found


async def _started_once(
    backend: Backend, found: SpecContents, response: Response, team: str, *, new: bool, written: str | None = None
) -> Started:
    """Start the run of a spec, or name the one that there is."""
    try:
        parts = found.known, found.dataset_id, found.fingerprints, found.sources
        first = await asyncio.to_thread(run_id_of, *parts, team)
    except NotCanonical as error:
        raise Refused(422, f"the spec has no canonical form: {error}") from None
    unseen = found.unseen
    if found.brought:
        await Teams(backend.database).claim_dataset(found.dataset_id, team)
    for run_id in further_ids(first):
        execution = await execution_of(backend, run_id)
        row = await backend.reader.runs.progress(run_id)
        is_open = execution is not None and execution.status == WorkflowExecutionStatus.RUNNING
        known = is_open or row is not None
        if not known and await started_as(backend, found.asked, run_id, team, found.files, written):
            backend.open_runs.add(run_id)
            return Started(optimization_id=run_id, status="initialized", created=True, unseen=unseen)
        if not new:
            response.status_code = 200
            status = row.status if row is not None else "initialized"
            return Started(optimization_id=run_id, status=status, created=False, unseen=unseen)
    raise AssertionError("there is always a further id")


async def refuse_problems(request: OptimizationRequest) -> None:
    """Refuse a spec with what is wrong with it by itself."""
    try:
        prices = await asyncio.to_thread(default_prices, request, OperatorLists(operator_settings()))
        problems = await problems_of(prices.given_to(request))
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    if problems:
        raise Refused(422, "; ".join(problems[:20]), problems[0].partition(": ")[0])


async def started_as(
    backend: Backend,
    request: OptimizationRequest,
    run_id: str,
    team: str,
    files: FactorFiles | None = None,
    written: str | None = None,
) -> bool:
    """Start a run under an id that nobody has; False when somebody else was faster."""
    if not await Teams(backend.database).claim_run(run_id, team):
        raise Refused(409, f"the id {run_id!r} is taken; give the spec another name", "name")
    try:
        await keep_factor_files(backend.database, run_id, files or {})
    except FactorFileMissing as error:
        raise Refused(422, str(error), "configuration") from None
    try:
        await backend.servers.client.start_workflow(
            WORKFLOW,
            request.model_dump(mode="json", by_alias=True),
            id=run_id,
            task_queue=backend.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            priority=share_of(run_id, request.execution.priority),
            static_summary=f"optimize {request.name}",
            memo={"ratchet": memo} if (memo := noted_as_written(written)) else None,
        )
    except WorkflowAlreadyStartedError:
        return False
    return True
