"""Reading trials: the list, one in full, its items, its candidate, and two of them side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import StringConstraints
from starlette.responses import Response

from clients.http.backend import NO_CONTROLS, CandidateId, Limit, Offset, RunId, Served
from clients.http.encoded_answers import encoded
from clients.http.errors import Refused, responses
from clients.http.missing_run import existing_run, refuse_unknown_run, why_unknown
from clients.reports.sent_requests import SentRequests, sent_requests
from clients.wire import CandidateDetail, TrialSlices, candidate_of, slices_of
from store.encoding import storable_text
from store.read.candidates import TriedFactors
from store.read.rows.item_rows import ItemPage
from store.read.rows.trial_rows import TrialDetail, TrialPage
from store.read.samples.comparisons import Comparison
from store.read.samples.sample_pairs import Turn
from store.read.samples.slice_scores import RunSlices, SliceScores, TooMuch
from workflows.model.trial import Purpose

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["trials"])

WhichPurpose = Annotated[
    Purpose | None, Query(description="Which trial of the candidate; left out, the one that searched, not the confirmation.")
]
SliceField = Annotated[str, StringConstraints(pattern=r"^(tags|(input|expected)(\.[^.\x00-\x1f\x7f]+)*)$", max_length=200)]
"""Like the spec's `dataset.slices`."""
QueriedCandidate = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_CONTROLS)]

WhichPart = Annotated[
    str | None,
    Query(max_length=40, pattern=NO_CONTROLS, description="Of several trials on some samples only: the one with this `part`."),
]


@router.get("/trials", operation_id="listTrials", responses=responses(404), response_model=TrialPage)
async def list_trials(
    run_id: RunId,
    backend: Served,
    offset: Offset = 0,
    limit: Limit = 100,
    newest_first: Annotated[bool, Query(description="The newest trials first, instead of the order of proposals.")] = False,
) -> Response:
    """Trials in the order of their proposals, confirmations last."""
    page = await backend.reader.trials.page(run_id, offset=offset, limit=limit, newest_first=newest_first)
    if page is None:
        await refuse_unknown_run(backend, run_id)
    trials = page or TrialPage(total=0, items=())
    return await encoded(lambda: trials.model_dump_json(by_alias=True))


@router.get("/trials/{candidate_id}", operation_id="getTrial", responses=responses(404))
async def get_trial(
    run_id: RunId, candidate_id: CandidateId, backend: Served, purpose: WhichPurpose = None, part: WhichPart = None
) -> TrialDetail:
    """One trial with its configuration and what each sample scored."""
    row = await backend.reader.trials.load(run_id, candidate_id, purpose, part)
    if row is None:
        await refuse_unknown_run(backend, run_id)
        raise _no_trial(run_id, candidate_id, purpose)
    return row


@router.get("/trials/{candidate_id}/items", operation_id="listItems", responses=responses(404))
async def list_items(
    run_id: RunId,
    candidate_id: CandidateId,
    backend: Served,
    purpose: WhichPurpose = None,
    part: WhichPart = None,
    only_failed: Annotated[bool, Query(description="Only answers that did not pass.")] = False,
    offset: Offset = 0,
    limit: Limit = 50,
) -> ItemPage:
    """What a trial was answered, with the samples, in their order."""
    page = await backend.reader.trials.items(
        run_id, candidate_id, purpose=purpose, part=part, passed=False if only_failed else None, offset=offset, limit=limit
    )
    if page is None:
        await refuse_unknown_run(backend, run_id)
        raise _no_trial(run_id, candidate_id, purpose)
    return page


@router.get("/trials/{candidate_id}/sent", operation_id="getSentRequests", responses=responses(404))
async def get_sent_requests(
    run_id: RunId,
    candidate_id: CandidateId,
    backend: Served,
    sample: Annotated[str, Query(min_length=1, max_length=1000, description="The sample's id.")],
    replicate: Annotated[int, Query(ge=0, le=2**31 - 1, description="Which of its answers.")] = 0,
    purpose: WhichPurpose = None,
) -> SentRequests:
    """The messages that were sent to answer a sample, made again from configuration, sample and what its steps answered; and
    those to the judges of the answer."""
    found = await backend.reader.sent.load(run_id, candidate_id, storable_text(sample), purpose)
    if found is None:
        await refuse_unknown_run(backend, run_id)
        if await backend.reader.trials.load(run_id, candidate_id, purpose) is None:
            raise _no_trial(run_id, candidate_id, purpose)
        raise Refused(404, f"the trial of {candidate_id!r} has no sample {sample[:200]!r}", "sample")
    return await asyncio.to_thread(sent_requests, found, replicate)


@router.get("/trials/{candidate_id}/slices", operation_id="listSlices", responses=responses(404))
async def list_slices(
    run_id: RunId,
    candidate_id: CandidateId,
    backend: Served,
    purpose: WhichPurpose = None,
    field: Annotated[
        list[SliceField],
        Query(
            max_length=10,
            description="`tags`, `expected` or e.g. `input.language`; again for more. Default: those that the spec names, else"
            " `tags`.",
        ),
    ] = [],  # noqa: B006 (FastAPI copies it)
) -> TrialSlices:
    """What a trial and the baseline scored on each part of the dataset."""
    found = await backend.reader.slices.of_trial(run_id, candidate_id, purpose, field)
    if found is None:
        await refuse_unknown_run(backend, run_id)
        raise _no_trial(run_id, candidate_id, purpose)
    return slices_of(run_id, candidate_id, found)


@router.get("/slices", operation_id="listRunSlices", responses=responses(404, 409))
async def list_run_slices(run_id: RunId, backend: Served) -> RunSlices:
    """By which fields the trials of a run can be looked at, and which slices there are of each."""
    found = await backend.reader.slice_scores.slices(run_id)
    if found is None:
        raise await why_unknown(backend, run_id)
    return found


@router.get("/slices/scores", operation_id="listSliceScores", responses=responses(404, 409))
async def list_slice_scores(
    run_id: RunId,
    backend: Served,
    field: Annotated[SliceField, Query(description="Whose values the slices are: `tags`, `expected`, `input.language`…")],
    candidate: Annotated[
        list[QueriedCandidate] | None,
        Query(
            max_length=200,
            description="A candidate whose trials are wanted; again for more. Default: all trials, where the answer of"
            " listRunSlices says `all_at_once`.",
        ),
    ] = None,
) -> SliceScores:
    """What many trials scored on each slice: what a table of trials shows beside their scores."""
    try:
        found = await backend.reader.slice_scores.scores(run_id, field, candidate)
    except TooMuch as error:
        raise Refused(409, f"{error}; name the candidates that are wanted", "candidate") from None
    if found is None:
        raise await why_unknown(backend, run_id)
    return found


@router.get("/candidates/{candidate_id}", operation_id="getCandidate", responses=responses(404))
async def get_candidate(run_id: RunId, candidate_id: CandidateId, backend: Served) -> CandidateDetail:
    """A candidate's configuration, and what it changes of the baseline and of its parents."""
    candidate = await backend.reader.candidates.load(run_id, candidate_id)
    if candidate is None:
        await refuse_unknown_run(backend, run_id)
        raise Refused(404, f"run {run_id} has no candidate {candidate_id!r}", "candidate_id")
    return await asyncio.to_thread(candidate_of, run_id, candidate)


@router.get("/factors", operation_id="listTriedFactors", responses=responses(404, 409))
async def list_tried_factors(run_id: RunId, backend: Served) -> TriedFactors:
    """The structured factors of a run: which of them mattered, and which values were tried with which score."""
    found = await backend.reader.candidates.tried(run_id)
    if found is None:
        raise await why_unknown(backend, run_id)
    return found


@router.get("/comparison", operation_id="compareTrials", responses=responses(404, 409), response_model=Comparison)
async def compare_trials(
    run_id: RunId,
    backend: Served,
    candidate: Annotated[str, Query(min_length=1, max_length=500, pattern=NO_CONTROLS, description="The candidate's id.")],
    against: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=NO_CONTROLS,
            description="The candidate to compare with. Default: the baseline.",
        ),
    ] = None,
    against_run: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=NO_CONTROLS,
            description="The run of the candidate to compare with. Default: this one.",
        ),
    ] = None,
    purpose: WhichPurpose = None,
    only: Annotated[Turn | None, Query(description="Only samples that took this turn.")] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="How many samples at most.")] = 20,
) -> Response:
    """Two trials, of one run or of two, sample by sample: what was fixed and broken, with the outputs of both side by side."""
    await refuse_unknown_run(backend, run_id)
    other_run = against_run or run_id
    row = await existing_run(backend, other_run)
    reference = against or row.baseline_candidate_id
    if reference is None:
        told = f"the baseline of {other_run} is not measured yet; name another candidate with `against`"
        raise Refused(404, told, "against")
    found = await backend.reader.comparisons.load(
        (other_run, reference, purpose), (run_id, candidate, purpose), only=only, offset=offset, limit=limit
    )
    if found is None:
        if await backend.reader.trials.load(other_run, reference, purpose) is None:
            raise _no_trial(other_run, reference, purpose)
        raise _no_trial(run_id, candidate, purpose)
    return await encoded(lambda: found.model_dump_json(by_alias=True))


def _no_trial(run_id: str, candidate_id: str, purpose: Purpose | None) -> Refused:
    what = f"trial of {candidate_id!r}" + (f" with purpose {purpose.value}" if purpose else "")
    return Refused(404, f"run {run_id} has no {what}; GET …/trials lists those there are", "candidate_id")
