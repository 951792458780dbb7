"""Releases over HTTP: those a run asked for, and somebody's word on the one that waits."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final, Literal

import pydantic
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
from clients.http.missing_names import no_prompt
from clients.http.missing_run import refuse_unknown_run
from clients.local_audit import DeedNote
from clients.runs.winner_release import NotReleased, PromptMissing, ReleaseOptions, ShownWorse, winner_release
from ratchet._frozen import Payload
from ratchet._text.explanation import explain
from ratchet._values import ShortText
from ratchet.prompts.names import PromptName, TagName
from workflows.model.spec.release import PersonName, ReleaseRequest, ReleaseState, Ruling
from workflows.model.spec.request import OptimizationRequest

ANSWERED_WITHIN: Final = 30.0
"""Seconds that a worker has to move the tag."""

router = APIRouter(prefix="/v1/private/optimizations/{optimization_id}", tags=["releases"], route_class=JsonRoute)


class Word(Payload):
    """Who says it, and why."""

    by: PersonName | None = None
    """The name that the audit log and the spec's `approvers` know. Left out by who has a token with a name: that is it."""
    comment: ShortText = Field(default="")


class WinnerAsked(Word):
    """Where the winner of a run goes."""

    prompt: PromptName | None = None
    """Which prompt it becomes. Left out: the one that the spec names."""
    tag: TagName | None = None
    """The tag that moves. Left out: the spec's, else `stable`."""
    canary: bool = False
    """Move the tag `canary`; the real one stays where it is."""
    force: bool = False
    """Release it although the confirmation speaks against it."""


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


@router.post("/release", operation_id="releaseWinner", responses=responses(404, 409, 504))
async def release_winner(run_id: RunId, asked: WinnerAsked, backend: Served, caller: CalledBy, noted: Noted) -> ReleaseState:
    """Release the winner of a finished run: the tag moves if it still points to what the winner was compared with.

    As a canary, the tag `canary` moves, and the real one stays. The rules are those of `ratchet release`.
    """
    by = approver(asked, caller)
    await refuse_unknown_run(backend, run_id)
    detail = await backend.reader.runs.load(run_id)
    if detail is None or detail.result is None:
        raise Refused(409, f"{run_id} has no result, so there is nothing to release", "optimization_id")
    request = OptimizationRequest.model_validate(detail.spec)
    try:
        options = ReleaseOptions(by, asked.prompt, asked.tag, asked.canary, asked.force, asked.comment)
        wanted = winner_release(request, detail.result, options)
    except PromptMissing as error:
        raise Refused(422, f"prompt: {error}; say which", "prompt") from None
    except ShownWorse as error:
        raise Refused(409, f"{run_id} is not released: {error}; `force` releases it all the same", "force") from None
    except NotReleased as error:
        raise Refused(409, str(error), "optimization_id") from None
    except pydantic.ValidationError as error:
        problems = explain(error)
        raise Refused(422, "; ".join(problems), problems[0].partition(": ")[0]) from None
    if caller.sees_only is not None and await backend.reader.teams.of_prompt(wanted.prompt) != caller.sees_only:
        raise Refused(404, no_prompt(wanted.prompt), "prompt")
    noted.prompt = wanted.prompt
    return await answer_of_writer(backend, wanted.prompt, "request", wanted)


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
