"""The spec of a run as text: as it is run, and as its author wrote it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from temporalio.service import RPCError

from activities.preparing.request_check import Busy, TakesTooLong, checked_apart
from clients.http.accepted_run import accepted_spec
from clients.http.backend import Backend
from clients.http.errors import Refused
from clients.runs.identity import is_plugin_queue
from clients.runs.lookup import known_run, spec_as_written
from ratchet._formats.yaml_text import yaml_text
from workflows.model.spec.request import OptimizationRequest

LONGEST_SECONDS_TO_FIND: Final = 2.0
"""For what only Temporal has, and a page can do without."""


async def as_written(backend: Backend, run_id: str) -> str | None:
    """The spec with its author's comments; None where it was no file, or Temporal does not tell."""
    try:
        async with asyncio.timeout(LONGEST_SECONDS_TO_FIND):
            return await spec_as_written(await known_run(backend.servers, run_id))
    except (RPCError, TimeoutError):  # what is stored is there without Temporal
        return None


def stored_spec_text(stored: dict[str, Any], task_queue: str) -> str:
    """A spec of the store in YAML, without what is as it is by default, and without what names its run."""
    request = OptimizationRequest.model_validate(stored)
    queue = request.execution.evaluation_task_queue
    if queue is not None and is_plugin_queue(queue, task_queue):
        execution = request.execution.model_copy(update={"evaluation_task_queue": None})
        request = request.model_copy(update={"execution": execution})
    request = request.model_copy(update={"retry_of": None})
    short = request.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    try:
        is_same = OptimizationRequest.model_validate(short) == request
    except ValueError:
        is_same = False
    return yaml_text(short if is_same else request.model_dump(mode="json", by_alias=True, exclude_none=True))


async def unstored_spec_text(backend: Backend, run_id: str) -> str:
    """The spec of a run that was refused, or has not begun. What is no spec is shown as it was sent."""
    given = await accepted_spec(backend, run_id)
    try:
        return await checked_apart(_sent_text, given, backend.task_queue)
    except Busy as busy:
        raise Refused(503, str(busy), retry_after=1) from None
    except (RecursionError, TakesTooLong):
        raise Refused(409, f"{run_id} was sent what cannot be shown as a spec", "optimization_id") from None


def _sent_text(given: dict[str, Any], task_queue: str) -> str:
    try:
        return stored_spec_text(given, task_queue)
    except ValueError:
        return yaml_text(given)
