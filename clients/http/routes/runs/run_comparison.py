"""Whole runs side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import StringConstraints

from clients.http.backend import NO_CONTROLS, Served
from clients.http.errors import Refused, responses
from clients.http.missing_run import why_unknown
from clients.reports.comparisons.side_by_side import Incomparable, SideBySide, UnknownEntrant, side_by_side

MOST = 10

router = APIRouter(prefix="/v1/private/comparison", tags=["runs"])

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=NO_CONTROLS)]


@router.get("", operation_id="compareOptimizations", responses=responses(404, 409))
async def compare_optimizations(
    backend: Served,
    of: Annotated[
        list[Name],
        Query(
            min_length=2,
            max_length=MOST,
            description="What is compared: a run, for its best candidate, or RUN/CANDIDATE. Given again for each; the first is"
            " what the others are compared with.",
        ),
    ],
) -> SideBySide:
    """Runs or candidates on the samples they share: significance, cost per point, who fixed what, what differs.

    Held-back samples are compared where all of them were confirmed on some, else those that the searches used.
    """
    try:
        return await side_by_side(backend.reader, of)
    except UnknownEntrant as error:
        if error.candidate_id is None:
            raise await why_unknown(backend, error.run_id) from None
        told = f"run {error.run_id} has no candidate {error.candidate_id!r}; GET …/trials lists those there are"
        raise Refused(404, told, "of") from None
    except Incomparable as error:
        raise Refused(409, str(error), "of") from None
