"""Finished runs, run again for what failed."""

from __future__ import annotations

from fastapi import APIRouter

from clients.http.access.callers import CalledBy
from clients.http.access.roles import deed_by
from clients.http.backend import RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import execution_of, why_unknown
from clients.http.routes.runs.start import refuse_own_release, started_as
from clients.runs.identity import further_ids
from clients.runs.lookup import written_spec
from clients.runs.retried_run import NotRetried, needs_code, retried_run, told_to_retry_elsewhere, without_questions
from clients.wire import Started
from store.write.access.audit_log import AuditLog

router = APIRouter(prefix="/v1/private/optimizations", tags=["steering"], route_class=JsonRoute)


@router.post("/{optimization_id}/retry", operation_id="retryOptimization", status_code=201, responses=responses(404, 409))
async def retry(run_id: RunId, backend: Served, caller: CalledBy) -> Started:
    """Run a finished run again for what failed: a new run that takes over all its other answers, and its proposals.

    Nothing that was answered is paid for again. Once answers that failed before are there, other candidates may turn out to be
    the best, so that later rounds may differ, and cost what they cost.
    """
    if not await backend.reader.runs.is_known(run_id):
        raise await why_unknown(backend, run_id)
    try:
        source = await retried_run(backend.reader, run_id)
    except NotRetried as error:
        raise Refused(409, str(error), "optimization_id") from None
    refuse_own_release(source.request, caller)
    if needs_code(source.request, backend.task_queue):
        raise Refused(409, told_to_retry_elsewhere(run_id), "optimization_id")
    request = without_questions(source.request)
    written = await written_spec(backend.servers, run_id)
    for further in further_ids(source.first_id):
        execution = await execution_of(backend, further)
        if execution is not None or await backend.reader.runs.is_known(further):
            continue
        if await started_as(backend, request, further, source.team, written=written):
            backend.open_runs.add(further)
            await AuditLog(backend.database).add(deed_by(caller, "start", further), "done")  # the new run's own entry
            return Started(optimization_id=further, status="initialized", created=True)
    raise AssertionError("there is always a further id")
