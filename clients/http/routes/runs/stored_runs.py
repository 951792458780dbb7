"""Reading runs: the list, one in full, its rounds, lineage, rejections and history."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response
from temporalio.client import WorkflowExecutionStatus

from clients.http.accepted_run import accepted_run
from clients.http.access.callers import CalledBy
from clients.http.backend import NO_CONTROLS, Backend, Limit, Offset, RunId, Served
from clients.http.encoded_answers import encoded
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of, existing_run, refuse_unknown_run
from clients.http.routes.runs.open_runs import OpenRun, waiting_of
from clients.reports.history.entries import get_entries
from clients.reports.load import facts_of
from clients.runs.lookup import TERMINAL
from clients.runs.views.waits import pollers_of, queues_waited_for
from clients.wire import (
    Done,
    Happening,
    Log,
    OptimizationDetail,
    OptimizationPage,
    RoundPage,
    detail_of,
    listed_of,
    round_of,
)
from store.read.outlines import Outline
from store.read.rows.lineage_rows import Graph
from store.read.rows.round_rows import RejectionPage
from store.read.rows.run_rows import RunDetail
from store.write.retention.legal_holds import HeldRun
from store.write.runs import Runs
from workflows.model.run.rounds import RunStatus

DESCRIBING_TAKES_AT_MOST = 2.0

router = APIRouter(prefix="/v1/private/optimizations", tags=["runs"])


@router.get("", operation_id="listOptimizations", responses=responses(), response_model=OptimizationPage)
async def list_optimizations(
    backend: Served,
    status: Annotated[RunStatus | None, Query(description="Only runs with this status.")] = None,
    search: Annotated[
        str | None,
        Query(
            min_length=1, max_length=200, pattern=NO_CONTROLS, description="Part of the id, the name, the use case or a tag."
        ),
    ] = None,
    pinned: Annotated[bool, Query(description="Only runs that somebody pinned.")] = False,
    offset: Offset = 0,
    limit: Limit = 100,
    *,
    caller: CalledBy,
) -> Response:
    """Runs of one's team, an admin's of all, the newest first; before them those that wait for a worker to begin."""
    page = await listed_optimizations(
        backend, status=status, search=search, team=caller.sees_only, pinned=pinned, offset=offset, limit=limit
    )
    return await encoded(lambda: page.model_dump_json(by_alias=True))


async def listed_optimizations(
    backend: Backend,
    *,
    status: RunStatus | None,
    search: str | None,
    team: str | None,
    pinned: bool = False,
    offset: int,
    limit: int,
) -> OptimizationPage:
    """A page of the list; without a team, of all runs."""
    open_runs = await _of_team(backend, team, await backend.open_runs.now(backend.servers, backend.reader))
    unknown = [run for run in open_runs if not run.in_store and run.matches(status, search)]
    begun = (
        await backend.reader.runs.known_among([run.run_id for run in unknown]) if unknown else set()
    )  # since it was looked at
    waiting = [] if pinned else [waiting_of(run) for run in unknown if run.run_id not in begun]
    first = waiting[offset : offset + limit]
    rest = {"offset": max(offset - len(waiting), 0), "limit": limit - len(first)}
    page = await backend.reader.runs.listed(status=status, search=search, team=team, pinned=pinned, **rest)
    waits = {run.run_id: run.waits_for for run in open_runs}
    months = await backend.reader.team_months.waited_for(row.run_id for row in page.items if row.status not in TERMINAL)
    rows = [
        listed_of(row, waits.get(row.run_id, ()) if row.status not in TERMINAL else (), months.get(row.run_id))
        for row in page.items
    ]
    return OptimizationPage(total=len(waiting) + page.total, items=(*first, *rows))


async def _of_team(backend: Backend, team: str | None, found: tuple[OpenRun, ...]) -> tuple[OpenRun, ...]:
    if team is None or not found:
        return found
    owners = await backend.reader.teams.of_runs(run.run_id for run in found)
    return tuple(run for run in found if owners[run.run_id] == team)


@router.get("/{optimization_id}", operation_id="getOptimization", responses=responses(404))
async def get_optimization(
    run_id: RunId,
    backend: Served,
    spec: Annotated[bool, Query(description="False leaves the spec empty: for those who have it and ask often.")] = True,
) -> OptimizationDetail:
    """Where a run stands, with its spec, its limits as in force, and its result once it is over.

    A run is there as soon as it was accepted: `initialized`, with what it waits for in `message`, until it begins.
    """
    newest = await backend.reader.events.last_id(run_id)
    progress, row = await backend.reader.runs.progress(run_id), await backend.reader.runs.load(run_id)
    if progress is None or row is None:
        return await accepted_run(backend, run_id)
    execution, waits_for = await _execution(backend, row)
    months = await backend.reader.team_months.waited_for([run_id]) if row.status not in TERMINAL else {}
    return detail_of(
        row,
        progress,
        execution=execution,
        last_event_id=newest,
        with_spec=spec,
        waits_for=waits_for,
        waits_for_team=months.get(run_id),
        temporal_url=backend.servers.page_of(run_id),
    )


async def _execution(backend: Backend, row: RunDetail) -> tuple[Literal["open", "closed", "unknown"], tuple[str, ...]]:
    """Whether its workflow is open, and what it waits for then. A run that is over says so itself; Temporal being away keeps
    nobody from looking."""
    if row.status in TERMINAL:
        return "closed", ()
    try:
        async with asyncio.timeout(DESCRIBING_TAKES_AT_MOST):
            execution = await execution_of(backend, row.run_id)
            if execution is None or execution.status != WorkflowExecutionStatus.RUNNING:
                return "closed", ()
            return "open", await queues_waited_for(backend.servers, execution, pollers_of(backend.servers))
    except Exception:
        return "unknown", ()


@router.delete("/{optimization_id}", operation_id="deleteOptimization", responses=responses(404, 409))
async def delete_optimization(run_id: RunId, backend: Served) -> Done:
    """Delete a finished run from the store, with its trials, answers and events."""
    row = await existing_run(backend, run_id)
    execution = await execution_of(backend, run_id)
    if execution is not None and execution.status == WorkflowExecutionStatus.RUNNING:
        raise Refused(409, f"{run_id} is {row.status}; cancel or stop it first", "optimization_id")
    try:
        await Runs(backend.database).delete(run_id)
    except HeldRun as error:
        raise Refused(409, str(error), "optimization_id") from None
    return Done(optimization_id=run_id, status=row.status, message="deleted, with its trials, answers and events")


@router.get("/{optimization_id}/rounds", operation_id="listRounds", responses=responses(404))
async def list_rounds(run_id: RunId, backend: Served, offset: Offset = 0, limit: Limit = 100) -> RoundPage:
    """Decided rounds, the baseline's first."""
    page = await backend.reader.runs.rounds(run_id, offset=offset, limit=limit)
    if page is None:
        await refuse_unknown_run(backend, run_id)
        return RoundPage(total=0, items=())
    return RoundPage(total=page.total, items=tuple(round_of(row) for row in page.items))


@router.get("/{optimization_id}/graph", operation_id="getGraph", responses=responses(404))
async def get_graph(run_id: RunId, backend: Served) -> Graph:
    """The true lineage: every candidate, and an edge from each of its parents."""
    graph = await backend.reader.candidates.graph(run_id)
    if graph is None:
        await refuse_unknown_run(backend, run_id)
        return Graph(nodes=(), edges=())
    return graph


@router.get("/{optimization_id}/outline", operation_id="getOutline", responses=responses(404), response_model=Outline)
async def get_outline(
    run_id: RunId,
    backend: Served,
    since: Annotated[int | None, Query(ge=0, lt=2**63, description="Only trials that events after this one speak of.")] = None,
) -> Response:
    """Every trial in a few hundred bytes, in one answer: what charts and tables of a whole run are drawn from.

    `last_event_id` is the newest event it knows; the stream of events goes on from there. Fields without a value are left out.
    """
    found = await backend.reader.outlines.load(run_id, since=since)
    if found is None:
        await refuse_unknown_run(backend, run_id)
    outline = found or Outline(last_event_id=0)
    return await encoded(lambda: outline.model_dump_json(exclude_none=True))


@router.get("/{optimization_id}/log", operation_id="getLog", responses=responses(404))
async def get_log(
    run_id: RunId,
    backend: Served,
    before: Annotated[int | None, Query(ge=1, lt=2**63, description="Only what happened before this event.")] = None,
    trials: Annotated[bool, Query(description="The beginnings and ends of trials as well.")] = False,
    limit: Limit = 100,
) -> Log:
    """What happened to a run, the newest first: the same events as those of the stream."""
    await refuse_unknown_run(backend, run_id)
    found = await backend.reader.events.newest(run_id, before=before, with_trials=trials, limit=limit + 1)
    happened = (Happening(id=event.id, type=event.type, at=event.created_at, facts=event.payload) for event in found[:limit])
    return Log(items=tuple(happened), has_more=len(found) > limit)


@router.get("/{optimization_id}/rejections", operation_id="listRejections", responses=responses(404))
async def list_rejections(run_id: RunId, backend: Served, offset: Offset = 0, limit: Limit = 100) -> RejectionPage:
    """Proposals that were kept out before anything was spent on them, and why."""
    page = await backend.reader.runs.rejections(run_id, offset=offset, limit=limit)
    if page is None:
        await refuse_unknown_run(backend, run_id)
    return page or RejectionPage(total=0, items=())


@router.get(
    "/{optimization_id}/history",
    operation_id="getHistory",
    responses=responses(404),
    response_model=list[dict[str, Any]],
)
async def get_history(run_id: RunId, backend: Served) -> Response:
    """The whole history as rounds of trials and candidates, of one shape for every optimizer. It has every trial that was run,
    with its purpose."""
    await refuse_unknown_run(backend, run_id)
    report = await backend.reader.runs.report(run_id)
    return await encoded(
        lambda: json.dumps([] if report is None else get_entries(facts_of(report)), ensure_ascii=False, allow_nan=False)
    )
