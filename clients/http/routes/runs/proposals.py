"""What proposers were asked and answered, and what was proposed and kept out."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from clients.http.backend import NO_CONTROLS, Offset, RunId, Served
from clients.http.encoded_answers import encoded
from clients.http.errors import Refused, responses
from clients.http.missing_run import refuse_unknown_run, why_unknown
from clients.wire import RejectedDetail, rejected_of
from store.read.rows.proposal_rows import ProposalPage

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["trials"])

MOST_PROPOSALS = 50

RoundNumber = Annotated[int, Path(ge=0, le=2**31 - 1, description="The round that it was proposed in.")]
ProposedIndex = Annotated[int, Path(ge=0, le=2**31 - 1, description="Its place among the round's proposals.")]


@router.get("/proposals", operation_id="listProposals", responses=responses(404, 409), response_model=ProposalPage)
async def list_proposals(
    run_id: RunId,
    backend: Served,
    round: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Only those of this round.")] = None,
    candidate: Annotated[
        str | None,
        Query(min_length=1, max_length=500, pattern=NO_CONTROLS, description="Only what this candidate was made of."),
    ] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_PROPOSALS, description="How many at most.")] = 20,
) -> Response:
    """What models, activities and plug-ins were asked for new values, what each answered, and what became of it."""
    found = await backend.reader.proposals.page(run_id, round=round, candidate=candidate, offset=offset, limit=limit)
    if found is None:
        raise await why_unknown(backend, run_id)
    return await encoded(lambda: found.model_dump_json(by_alias=True))


@router.get("/rejections/{round}/{proposed_index}", operation_id="getRejection", responses=responses(404))
async def get_rejection(run_id: RunId, round: RoundNumber, proposed_index: ProposedIndex, backend: Served) -> RejectedDetail:
    """A proposal that was kept out, with what it would have changed."""
    found = await backend.reader.proposals.rejected(run_id, round, proposed_index)
    if found is None:
        await refuse_unknown_run(backend, run_id)
        told = f"run {run_id} rejected no proposal {proposed_index} in round {round}; GET …/rejections lists those it did"
        raise Refused(404, told, "proposed_index")
    return await asyncio.to_thread(rejected_of, run_id, found)
