"""Several runs as one file to keep or to send, as `ratchet report ID ID…` writes them."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import StringConstraints
from starlette.responses import Response

from clients.http.backend import NO_CONTROLS, Served
from clients.http.errors import responses
from clients.http.missing_run import why_unknown
from clients.http.routes.runs.run_reports import as_download, page_answers
from clients.reports.html import ReportedRun
from clients.reports.load import facts_of
from clients.reports.several_runs import reported_runs

MOST_RUNS: Final = 20
"""Of one report; each may be some tens of megabytes."""
_KINDS: Final = {"html": "text/html", "zip": "application/zip"}

router = APIRouter(prefix="/v1/private/report", tags=["runs"])


@router.get(
    "",
    operation_id="getReportOfRuns",
    responses={**responses(404, 409), 200: {"content": {kind: {} for kind in _KINDS.values()}}},
    response_class=Response,
)
async def get_report_of_runs(
    backend: Served,
    of: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_CONTROLS)]],
        Query(
            min_length=1,
            max_length=MOST_RUNS,
            description="A run's id. Given again for each; of many runs each is compared with the first.",
        ),
    ],
    form: Annotated[
        Literal["html", "zip"],
        Query(
            alias="format",
            description="`html`: all in one file; `zip`: a file for each, and `index.html`, which lists and compares them. They"
            " open without a server.",
        ),
    ] = "html",
    full: Annotated[bool, Query(description="With every candidate, and what best and baseline answered.")] = False,
) -> Response:
    """Several runs, finished or not, with how they compare, as a file."""
    run_ids = list(dict.fromkeys(of))
    runs, answers = [], {}
    for run_id in run_ids:
        report = await backend.reader.runs.report(run_id)
        if report is None:
            raise await why_unknown(backend, run_id)
        slices = await backend.reader.slices.of_run(run_id, None)
        facts = await asyncio.to_thread(facts_of, report)
        runs.append(ReportedRun(facts.model_copy(update={"slices": slices})))
        answers[run_id] = await page_answers(backend, run_id, full)
        if not answers[run_id]:  # deleted a moment ago
            raise await why_unknown(backend, run_id)
    found = await reported_runs(backend.reader, runs, answers, in_full=full)

    def written() -> bytes:
        return found.as_file().encode() if form == "html" else _packed(found.as_files())

    return Response(await asyncio.to_thread(written), media_type=_KINDS[form], headers=as_download(run_ids, form))


def _packed(texts: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return packed.getvalue()
