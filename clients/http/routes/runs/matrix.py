"""The matrix of a run: samples by candidates."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from clients.http.backend import NO_CONTROLS, Backend, RunId, Served
from clients.http.encoded_answers import answer_of, encoded, in_thread
from clients.http.errors import Refused, responses
from clients.http.missing_run import why_unknown
from clients.http.routes.runs.trials import QueriedCandidate, SliceField
from clients.reports.comparisons.side_by_side import Incomparable, UnknownEntrant, named_entrant
from store.read.samples.matrix import Kept, MatrixFilter, NoSample
from store.read.samples.matrix_columns import MOST_CANDIDATES, UnknownColumn
from store.read.samples.matrix_rows import Matrix, MatrixAnswers

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}/matrix", tags=["trials"])

Confirmation = Annotated[
    bool, Query(description="The trials of the confirmation, on held-back samples, not those of the search.")
]
OtherEntrants = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=NO_CONTROLS)]] | None,
    Query(
        max_length=MOST_CANDIDATES - 1,
        description="A column of another run over the same samples: RUN/CANDIDATE, RUN/baseline, or RUN for its best; again for"
        " more. They stand behind this run's.",
    ),
]
Position = Annotated[int, Query(ge=0, le=2**31 - 1, description="The sample's place in its split, as the matrix has it.")]
SampleId = Annotated[
    str | None,
    Query(
        min_length=1, max_length=500, pattern=NO_CONTROLS, description="The sample's id; its position is not looked at then."
    ),
]


@router.get("", operation_id="getMatrix", responses=responses(404, 409), response_model=Matrix)
async def get_matrix(
    run_id: RunId,
    request: Request,
    backend: Served,
    candidate: Annotated[
        list[QueriedCandidate] | None,
        Query(
            max_length=MOST_CANDIDATES,
            description="A column; again for more. `fixed` and `broken` compare with the first. Default: the baseline, the best"
            f" and those with the best scores, {MOST_CANDIDATES} in all.",
        ),
    ] = None,
    other: OtherEntrants = None,
    confirmation: Confirmation = False,
    only: Annotated[
        Kept | None,
        Query(
            description="Samples that the first column failed and another passes (`fixed`), the other way round (`broken`), of"
            " which an answer failed (`failed`), or that some pass and others do not (`disagree`)."
        ),
    ] = None,
    by: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=500,
            pattern=NO_CONTROLS,
            description="The column that `only` asks after, one of another run as RUN/CANDIDATE; left out, any.",
        ),
    ] = None,
    field: Annotated[SliceField, Query(description="Of `slice`: `tags`, `expected`, `input.language`…")] = "tags",
    slice: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=300,
            pattern=NO_CONTROLS,
            description="Only this slice of the field, as listRunSlices names it.",
        ),
    ] = None,
    search: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            pattern=NO_CONTROLS,
            description="Part of the id, the input, the expected answer, or of an answer that a cell shows. Where contents are"
            " encrypted, of the id alone: `searched` says where it looked, `columns_searched` into whose answers.",
        ),
    ] = None,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="Samples behind this position.")] = -1,
    skip: Annotated[int, Query(ge=0, le=2**31 - 1, description="How many of them to pass over, for whoever jumps.")] = 0,
    limit: Annotated[int, Query(ge=1, le=100, description="How many samples at most.")] = 50,
) -> Response:
    """Samples by candidates, page by page: what each scored, whether it passes, and how the answer begins."""
    wanted = MatrixFilter(only, by, field, slice, search)

    async def look() -> bytes:
        try:
            found = await backend.reader.matrix.page(
                run_id,
                candidate,
                others=await _others(backend, candidate, other),
                confirmation=confirmation,
                wanted=wanted,
                after=after,
                skip=skip,
                limit=limit,
            )
        except UnknownColumn as error:
            raise _no_column(run_id, error) from None
        if found is None:
            raise await why_unknown(backend, run_id)
        return await in_thread(lambda: found.model_dump_json(by_alias=True))

    # The entrance has let in everybody who comes this far, and shows all of them the same.
    return answer_of(await backend.looks.answer(f"{run_id}?{request.url.query}", look))


@router.get("/answers", operation_id="listMatrixAnswers", responses=responses(404, 409), response_model=MatrixAnswers)
async def list_matrix_answers(
    run_id: RunId,
    backend: Served,
    position: Position = 0,
    sample: SampleId = None,
    candidate: Annotated[
        list[QueriedCandidate],
        Query(max_length=MOST_CANDIDATES, description="Whose answers are wanted; again for more."),
    ] = [],  # noqa: B006 (FastAPI copies it)
    other: OtherEntrants = None,
    confirmation: Confirmation = False,
) -> Response:
    """One sample in full, with every answer that these candidates gave to it."""
    wanted = position if sample is None else sample
    try:
        found = await backend.reader.matrix.answers(
            run_id, wanted, candidate, others=await _others(backend, candidate, other), confirmation=confirmation
        )
    except UnknownColumn as error:
        raise _no_column(run_id, error) from None
    except NoSample:
        name, told = ("position", f"at position {position}") if sample is None else ("sample", repr(sample[:200]))
        raise Refused(404, f"run {run_id} has no sample {told} there; GET …/matrix lists those there are", name) from None
    if found is None:
        raise await why_unknown(backend, run_id)
    return await encoded(lambda: found.model_dump_json(by_alias=True))


async def _others(backend: Backend, candidates: list[str] | None, names: list[str] | None) -> list[tuple[str, str]]:
    """Columns of other runs, by run and candidate."""
    if len(candidates or ()) + len(names or ()) > MOST_CANDIDATES:
        raise Refused(409, f"at most {MOST_CANDIDATES} columns stand beside each other", "other")
    found = []
    for name in names or ():
        try:
            entrant = await named_entrant(backend.reader, name)
        except UnknownEntrant as error:
            if error.candidate_id is None:
                raise await why_unknown(backend, error.run_id) from None
            told = f"run {error.run_id} has no candidate {error.candidate_id[:200]!r}; GET …/trials lists those there are"
            raise Refused(404, told, "other") from None
        except Incomparable as error:
            raise Refused(409, str(error), "other") from None
        found.append((entrant.run.run_id, entrant.candidate_id))
    return found


def _no_column(run_id: str, error: UnknownColumn) -> Refused:
    told = f"run {error.run_id or run_id} has no trial of {error.candidate_id[:200]!r} there"
    return Refused(404, f"{told}; GET …/matrix without `candidate` lists some that it has", "candidate")
