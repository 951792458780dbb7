"""What a run is started from: the schema of a spec, templates, the spec of an earlier run, and a check that starts nothing."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any, Final

from fastapi import APIRouter, Response
from starlette.responses import Response as Answer

from clients.http.accepted_run import accepted_spec_text
from clients.http.access.audited_requests import Noted
from clients.http.access.callers import CalledBy
from clients.http.access.roles import SPEC
from clients.http.backend import RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import responses
from clients.http.routes.runs.start import New, refuse_own_release, start_for
from clients.http.spec_checks import CheckedSpec, WrittenSpec, check_written, checked_request
from clients.reports.spec_texts import SpecText, spec_text
from clients.runs.lookup import written_spec
from clients.templates.spec_templates import TEMPLATES, whole_spec
from clients.wire import Started
from ratchet._frozen import Payload
from workflows.model.spec.request import spec_schema

FRESH: Final = 3600
"""Seconds that a browser keeps the schema, which changes with the version of the server alone."""

router = APIRouter(prefix=SPEC, tags=["specs"], route_class=JsonRoute)
of_runs = APIRouter(prefix="/v1/private/optimizations", tags=["specs"])


class Template(Payload):
    """A spec to begin with, as `ratchet init` writes it, its samples inside."""

    name: str
    improves: str
    needs: str | None
    """What must lie where the workers are."""
    text: str


@router.get("/schema", operation_id="getSpecSchema", responses=responses(), response_model=dict[str, Any])
async def get_schema() -> Answer:
    """The JSON Schema of the spec, by which editors complete and check it."""
    text = await asyncio.to_thread(_schema)
    return Answer(text, media_type="application/json", headers={"Cache-Control": f"private, max-age={FRESH}"})


@router.get("/templates", operation_id="listSpecTemplates", responses=responses())
async def list_templates() -> tuple[Template, ...]:
    """The specs that `ratchet init` writes, each with its samples inside."""
    return await asyncio.to_thread(_templates)


@router.post("/check", operation_id="checkSpec", responses=responses(413))
async def check(written: WrittenSpec, backend: Served, caller: CalledBy) -> CheckedSpec:
    """Check a spec, and say what its run would do and cost. Nothing is started, nothing is paid.

    What is wrong is told with its line, as `ratchet check` tells it; what `ratchet run` would ask before it spends money is in
    `question`. What this server may not read, only the workers, is named in `unseen`.
    """
    return await check_written(backend, written, caller.team)


@router.post(
    "/start", operation_id="startWrittenSpec", status_code=201, responses=responses(409, 413) | {200: {"model": Started}}
)
async def start_written(
    written: WrittenSpec,
    backend: Served,
    caller: CalledBy,
    noted: Noted,
    response: Response,
    new: New = False,
) -> Started:
    """Start a run of a spec as somebody writes it. It is checked first, and kept with its comments beside the run.

    Otherwise it is what starting the spec itself is: the same spec is the same run, named with 200, and not paid again.
    """
    request = await checked_request(backend, written, caller.team)
    refuse_own_release(request, caller)
    started = await start_for(backend, request, response, caller.team, new=new, written=written.text)
    noted.run_id = started.optimization_id
    return started


@of_runs.get("/{optimization_id}/spec", operation_id="getSpec", responses=responses(404, 409))
async def get_spec(run_id: RunId, backend: Served) -> SpecText:
    """The spec of a run as text, to be changed and started again; also of a run that was refused, or has not begun."""
    row = await backend.reader.runs.load(run_id)
    if row is None:
        text, dataset_id = await accepted_spec_text(backend, run_id), None
    else:
        text, dataset_id = await asyncio.to_thread(spec_text, row.spec, backend.task_queue), row.dataset_id
    return SpecText(text=text, written=await written_spec(backend.servers, run_id), dataset_id=dataset_id)


@functools.cache
def _schema() -> str:
    """It reads the docstrings of every field, which takes a second."""
    return json.dumps(spec_schema(), ensure_ascii=False)


@functools.cache
def _templates() -> tuple[Template, ...]:
    return tuple(
        Template(name=name, improves=template.improves, needs=template.needs, text=whole_spec(name))
        for name, template in TEMPLATES.items()
    )
