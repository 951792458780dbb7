"""A run as a file to keep or to send, as `ratchet report` and `ratchet export` write it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from clients.http.backend import Backend, RunId, Served
from clients.http.errors import responses
from clients.http.missing_run import why_unknown
from clients.reports.exports import outcome_rows
from clients.reports.history.entries import report_json
from clients.reports.history.files import history_text
from clients.reports.html import html
from clients.reports.inlined_answers import inlined_answers
from clients.reports.load import facts_of
from clients.reports.markdown import markdown
from clients.reports.several_runs import download_name
from clients.reports.text.boxes import Verbosity
from clients.runs.lookup import written_spec

ReportForm = Literal["html", "markdown", "json", "yaml", "csv"]
KINDS: Final[dict[str, tuple[str, str]]] = {
    "html": ("text/html", "html"),
    "markdown": ("text/markdown", "md"),
    "json": ("application/json", "json"),
    "yaml": ("application/yaml", "yaml"),
    "csv": ("text/csv", "csv"),
}
"""The type of each form, and how its file's name ends."""

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["runs"])


@router.get(
    "/report",
    operation_id="getReport",
    responses={**responses(404, 409), 200: {"content": {kind: {} for kind, _ in KINDS.values()}}},
    response_class=Response,
)
async def get_report(
    run_id: RunId,
    backend: Served,
    form: Annotated[
        ReportForm,
        Query(
            alias="format",
            description="`html`: the page in one file, which opens without a server; `markdown`; `json`; `yaml`: the history;"
            " `csv`: a line for each answer and score.",
        ),
    ] = "html",
    full: Annotated[bool, Query(description="With every candidate, and what best and baseline answered.")] = False,
) -> Response:
    """A run's report as a file, finished or not."""
    report = await backend.reader.runs.report(run_id)
    if report is None:
        raise await why_unknown(backend, run_id)
    kind, ending = KINDS[form]
    headers = as_download([run_id], ending)
    if form == "csv":
        rows = outcome_rows(backend.reader, run_id)
        return StreamingResponse(_encoded(rows), media_type=kind, headers=headers)
    slices = await backend.reader.slices.of_run(run_id, None)
    answers = await page_answers(backend, run_id, full) if form == "html" else {}

    def written() -> bytes:
        facts = facts_of(report).model_copy(update={"slices": slices})
        forms: dict[str, Callable[[], str]] = {
            "html": lambda: html(facts, answers),
            "markdown": lambda: markdown(facts, Verbosity.FULL if full else Verbosity.SUMMARY),
            "json": lambda: json.dumps(report_json(facts), ensure_ascii=False, indent=2),
            "yaml": lambda: history_text(facts),
        }
        return forms[form]().encode()

    return Response(await asyncio.to_thread(written), media_type=kind, headers=headers)


async def page_answers(backend: Backend, run_id: str, full: bool) -> dict[str, str]:
    """What the page asks for of a run, with its spec as its author wrote it."""
    written = await written_spec(backend.servers, run_id)
    return await inlined_answers(backend.database, run_id, in_full=full, written=written)


def as_download(run_ids: Sequence[str], ending: str) -> dict[str, str]:
    """Have a browser keep the answer as a file that is named by the runs."""
    return {"Content-Disposition": f'attachment; filename="{download_name(run_ids, ending)}"'}


async def _encoded(rows: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for row in rows:
        yield row.encode()
