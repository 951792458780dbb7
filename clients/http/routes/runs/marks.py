"""Pins, tags and notes on runs, candidates and answers; and the search that finds them, with all that has a name."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import ConfigDict, Field, model_validator

from clients.http.access.callers import CalledBy, HttpCaller
from clients.http.access.roles import RUN, SEARCH
from clients.http.backend import NO_CONTROLS, Backend, Limit, Offset, RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import existing_run, refuse_unknown_run
from clients.wire import MarkPage
from ratchet._frozen import Payload
from store.read.access.access_tokens import Role
from store.read.finds import Find
from store.read.marks import Mark, MarkedThing, MarkKind
from store.write.marks import Marks, NothingToMark, NotYours, TooManyMarks

LONGEST_TAG: Final = 60
LONGEST_NOTE: Final = 10_000
MOST_FINDS: Final = 50

Place = Annotated[str, Field(min_length=1, max_length=500, pattern=NO_CONTROLS)]
Number = Annotated[int, Path(ge=1, lt=2**63, description="The number of the mark.")]
NoteText = Annotated[str, Field(min_length=1, max_length=LONGEST_NOTE, pattern=r"\S")]


class NewMark(Payload):
    """What to say, and of what: without a candidate of the run, without a sample of the candidate, else of one answer."""

    model_config = ConfigDict(frozen=True, strict=True)

    kind: MarkKind
    text: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    """The tag, at most sixty characters, or the note; a pin has none."""
    candidate_id: Place | None = None
    item_id: Place | None = None
    replicate: Annotated[int, Field(ge=0, lt=2**31)] | None = None

    @model_validator(mode="after")
    def _whole(self) -> NewMark:
        if self.item_id is not None and (self.candidate_id is None or self.replicate is None):
            raise ValueError("item_id: an answer is named by candidate_id, item_id and replicate; give all three")
        if self.item_id is None and self.replicate is not None:
            raise ValueError("replicate: belongs to an answer; give item_id and candidate_id, too")
        if self.kind == "pin" and self.text:
            raise ValueError("text: a pin says nothing; make it a note")
        if self.kind != "pin" and not self.text.strip():
            raise ValueError(f"text: is empty; write the {self.kind}")
        if self.kind == "tag" and (len(self.text) > LONGEST_TAG or any(ord(one) < 32 or ord(one) == 127 for one in self.text)):
            raise ValueError(f"text: a tag is one line of at most {LONGEST_TAG} characters; make it a note")
        return self


class NewNote(Payload):
    """What a note is to say."""

    text: NoteText


router = APIRouter(tags=["marks"], route_class=JsonRoute)


@router.get(f"{RUN}/marks", operation_id="listMarks", responses=responses(404))
async def list_marks(run_id: RunId, backend: Served, offset: Offset = 0, limit: Limit = 1000) -> MarkPage:
    """What people said of a run, of its candidates and of their answers. No decision reads it."""
    total, found = await backend.reader.marks.of_run(run_id, offset=offset, limit=limit)
    if not total:
        await refuse_unknown_run(backend, run_id)
    return MarkPage(total=total, items=tuple(found))


@router.post(f"{RUN}/marks", operation_id="addMark", status_code=201, responses=responses(404, 409))
async def add_mark(run_id: RunId, new: NewMark, backend: Served, caller: CalledBy) -> Mark:
    """Pin or tag a run, a candidate or an answer, or write a note on it. The same tag again is the one that is there."""
    await existing_run(backend, run_id)
    thing = MarkedThing(run_id=run_id, candidate_id=new.candidate_id, item_id=new.item_id, replicate=new.replicate)
    text = new.text.strip() if new.kind == "tag" else new.text
    try:
        return await Marks(backend.database).add(thing, new.kind, text, caller.name, caller.through)
    except NothingToMark as error:
        raise Refused(404, str(error), str(error).partition(": ")[0]) from None
    except TooManyMarks as error:
        raise Refused(409, str(error)) from None


@router.put(f"{RUN}/marks/{{number}}", operation_id="changeNote", responses=responses(404))
async def change_note(run_id: RunId, number: Number, new: NewNote, backend: Served, caller: CalledBy) -> Mark:
    """Write a note anew: one's own, an admin any."""
    try:
        changed = await Marks(backend.database).change(run_id, number, new.text, _author(caller))
    except NotYours as error:
        raise Refused(403, str(error), "number") from None
    if changed is None:
        raise await _no_mark(backend, run_id, number, "note")
    return changed


@router.delete(
    f"{RUN}/marks/{{number}}", operation_id="removeMark", status_code=204, responses=responses(404), response_class=Response
)
async def remove_mark(run_id: RunId, number: Number, backend: Served, caller: CalledBy) -> Response:
    """Take a pin or a tag away, or a note of one's own; an admin any."""
    try:
        removed = await Marks(backend.database).remove(run_id, number, _author(caller))
    except NotYours as error:
        raise Refused(403, str(error), "number") from None
    if not removed:
        raise await _no_mark(backend, run_id, number, "mark")
    return Response(status_code=204)


class Finds(Payload):
    """What was found: runs first, then prompts, datasets, candidates, tags and notes; of each kind the newest."""

    items: tuple[Find, ...]


@router.get(SEARCH, operation_id="search", responses=responses())
async def search(
    backend: Served,
    q: Annotated[str, Query(min_length=1, max_length=200, pattern=NO_CONTROLS, description="The word to look for.")],
    limit: Annotated[int, Query(ge=1, le=MOST_FINDS, description="How many of each kind at most.")] = 8,
    *,
    caller: CalledBy,
) -> Finds:
    """Look for a word in names of runs, prompts and datasets, in tags and notes; and at how names of candidates begin.

    One finds what one's team has, an admin what all have.
    """
    return Finds(items=tuple(await backend.reader.finds.find(q, team=caller.sees_only, limit=limit)))


def _author(caller: HttpCaller) -> str | None:
    """Whose notes a caller may change; None for all."""
    return None if caller.role is Role.ADMIN else caller.name


async def _no_mark(backend: Backend, run_id: str, number: int, what: str) -> Refused:
    await refuse_unknown_run(backend, run_id)
    return Refused(404, f"{run_id} has no {what} {number}", "number")
