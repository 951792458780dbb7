"""A run that was accepted and is not in the store yet: Temporal knows that there is one, and its input what it is about."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pydantic
from temporalio.client import WorkflowExecutionStatus

from activities.preparing.request_check import Busy, TakesTooLong, checked_apart
from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.http.missing_run import standing_of, unknown_run, unstored_execution
from clients.http.routes.runs.open_runs import OpenRun, head_of, input_of, waiting_of
from clients.reports.spec_texts import spec_text
from clients.wire import InFlight, OptimizationDetail, budget_in_seconds
from ratchet._formats.yaml_text import yaml_text
from workflows.model.run.rounds import Unanswered
from workflows.model.spec.execution import Stop
from workflows.model.spec.request import OptimizationRequest


async def accepted_run(backend: Backend, run_id: str) -> OptimizationDetail:
    """The run as it stands: `initialized`, or `failed` when it was refused before it began."""
    execution = await unstored_execution(backend, run_id)
    if execution is None:
        raise unknown_run(run_id)
    given = dict(await input_of(backend.servers, execution))
    request = await _as_request(given)
    told, waits = await standing_of(backend, execution)
    is_open = execution.status == WorkflowExecutionStatus.RUNNING
    head = waiting_of(OpenRun(run_id, execution.start_time.astimezone(UTC), waits, False, head_of(given))).model_dump()
    stop = request.stop if request is not None else Stop()
    known: dict[str, Any] = {}
    if request is not None:
        known = {
            "direction": request.objective.direction.value,
            "spec": request.model_dump(mode="json", by_alias=True),
            "budget": budget_in_seconds(request.budget),
            "dataset_id": request.dataset.id or "",
            "dataset_name": request.dataset_name,
        }
    nothing: dict[str, Any] = {
        "spec": {},
        "limits": {},
        "result": None,
        "first_look": None,
        "lost": Unanswered(),
        "in_flight": InFlight(answered=0, expected=0, trials=()),
        "seconds_left": None,
        "dataset_id": "",
        "dataset_name": "",
        "dataset_count": 0,
        "dataset_merged": 0,
        "evaluation_suite_id": "",
        "search_split": "",
        "versions": {},
        "last_event_id": 0,
    }
    standing = {
        "status": "initialized" if is_open else "failed",
        "message": told,
        "stop": stop,
        "max_rounds": stop.max_rounds,
        "task_queue": execution.task_queue,
        "execution": "open" if is_open else "closed",
        "temporal_url": backend.servers.page_of(run_id),
    }
    return OptimizationDetail(**{**head, **nothing, **known, **standing})


async def accepted_spec_text(backend: Backend, run_id: str) -> str:
    """The spec of a run that was refused, or has not begun. What is no spec is shown as it was sent."""
    execution = await unstored_execution(backend, run_id)
    if execution is None:
        raise unknown_run(run_id)
    given = dict(await input_of(backend.servers, execution))
    try:
        return await checked_apart(_sent_text, given, backend.task_queue)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    except (RecursionError, TakesTooLong):
        raise Refused(409, f"{run_id} was sent what cannot be shown as a spec", "optimization_id") from None


def _sent_text(given: dict[str, Any], task_queue: str) -> str:
    try:
        return spec_text(given, task_queue)
    except ValueError:
        return yaml_text(given)


async def _as_request(given: dict[str, Any]) -> OptimizationRequest | None:
    """The input as a spec; whatever else was sent is none."""
    try:
        return await checked_apart(OptimizationRequest.model_validate, given)
    except (pydantic.ValidationError, RecursionError, Busy, TakesTooLong):
        return None
