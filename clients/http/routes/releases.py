"""Releases over HTTP: those a run asked for, and somebody's word on the one that waits."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final, Literal

from fastapi import APIRouter
from pydantic import Field
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.releases.requests import ask_release_writer
from clients.http.access.audited_requests import Noted
from clients.http.access.callers import CalledBy, HttpCaller
from clients.http.backend import Backend, RunId, Served
from clients.http.bodies import JsonRoute
from clients.http.errors import Refused, responses
from clients.http.missing_run import refuse_unknown_run
from clients.local_audit import DeedNote
from ratchet._frozen import Payload
from ratchet._values import ShortText
from workflows.model.spec.release import PersonName, ReleaseRequest, ReleaseState, Ruling

ANSWERED_WITHIN: Final = 30.0
"""Seconds that a worker has to move the tag."""

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["releases"], route_class=JsonRoute)


class Word(Payload):
    """Who says it, and why."""

    by: PersonName | None = None
    """The name that the audit log and the spec's `approvers` know. Left out by who has a token with a name: that is it."""
    comment: ShortText = Field(default="")


@router.get("/releases", operation_id="listReleases", responses=responses(404))
async def list_releases(run_id: RunId, backend: Served) -> list[ReleaseState]:
    """The releases that a run asked for, the newest first, with what became of them."""
    await refuse_unknown_run(backend, run_id)
    return await backend.reader.releases.listed(run_id=run_id)


@router.post("/approve", operation_id="approveRelease", responses=responses(404, 409, 504))
async def approve(run_id: RunId, word: Word, backend: Served, caller: CalledBy, noted: Noted) -> ReleaseState:
    """Approve the release that a run asked for, and carry it out."""
    return await _ruled(backend, run_id, "approve", word, caller, noted)


@router.post("/reject", operation_id="rejectRelease", responses=responses(404, 409, 504))
async def reject(run_id: RunId, word: Word, backend: Served, caller: CalledBy, noted: Noted) -> ReleaseState:
    """Reject the release that a run asked for; nothing moves."""
    return await _ruled(backend, run_id, "reject", word, caller, noted)


def approver(word: Word, caller: HttpCaller) -> str:
    """Whose word it is: a token's name cannot be replaced by another, and without one somebody must be named."""
    if not caller.is_named and word.by is None:
        raise Refused(422, "by: the server's own token says nothing of who you are; give your name", "by")
    if caller.is_named and word.by not in (None, caller.name):
        raise Refused(422, f"by: your token says that you are {caller.name!r}; leave `by` out", "by")
    return caller.name if caller.is_named else str(word.by)


async def _ruled(
    backend: Backend, run_id: str, ruling: Literal["approve", "reject"], word: Word, caller: HttpCaller, noted: DeedNote
) -> ReleaseState:
    by = approver(word, caller)
    await refuse_unknown_run(backend, run_id)
    waiting = [state for state in await backend.reader.releases.listed(run_id=run_id) if state.status == "pending"]
    if not waiting:
        raise Refused(409, f"{run_id} has no release that waits for approval", "optimization_id")
    noted.prompt = waiting[0].prompt
    said = Ruling(release_id=waiting[0].release_id, by=by, comment=word.comment, through=caller.through)
    return await answer_of_writer(backend, waiting[0].prompt, ruling, said)


async def answer_of_writer(
    backend: Backend, prompt: str, update: Literal["approve", "reject", "request"], asked: Ruling | ReleaseRequest
) -> ReleaseState:
    """What the one writer of a prompt says to a ruling, or to a release that is asked for."""
    told = "the release" if update == "request" else update
    call = ask_release_writer(backend.servers.client, backend.task_queue, prompt, update, asked, f"http-{uuid.uuid4().hex}")
    try:
        async with asyncio.timeout(ANSWERED_WITHIN):
            return await call
    except TimeoutError:
        raise Refused(504, f"no worker answered {told} within {ANSWERED_WITHIN:g} s; ask again", retry_after=5) from None
    except WorkflowUpdateFailedError as error:
        why = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
        raise Refused(409, f"{told} was refused: {why}") from None
