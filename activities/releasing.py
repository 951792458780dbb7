"""The steps of a release: asked for, approved, carried out by compare-and-swap, closed in the audit log.

Two stores are written, so nothing here is one transaction. The release's id makes it whole: it is the key of the audit row, and
the idempotency key of the tag's move. Whatever is killed in between, the next attempt finds the move that was made and closes
the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from activities.releases.override_stores import Overrides
from activities.releases.release_candidates import NothingToRelease, Subject, Subjects
from activities.releases.requests import ask_release_writer
from activities.releases.tags import TagMoves, objection
from activities.shards.heartbeat import heartbeating
from ratchet.prompts.prompt_errors import PromptError, StaleBase, VersionTaken
from store.connection import Database
from store.errors import store_errors
from store.read.releases import StoredRelease
from store.write.releases import NewRelease, Settlement
from store.write.repositories import Store
from workflows.contracts import Releasing
from workflows.model.failures import INVALID_REQUEST, shorten
from workflows.model.spec.release import (
    DECIDED,
    LoadedReleases,
    OpenRelease,
    ReleaseRequest,
    ReleaseRequests,
    ReleaseState,
    ReleaseStatus,
    ReleaseStep,
    Settle,
)
from workflows.rules.releases.versions import changes, class_of, frozen_parts

SWAPS = 20
"""How often a tag that moves under our hands is looked at again. There is one writer, so it hardly ever does."""

RECENT = 50

PROMPT_REFUSED = "PromptRefused"
"""The override store refuses for good: a damaged file, a frozen part that changed, a login that is not accepted."""


class PromptReleasing(Releasing):
    """Releasing over the audit log in PostgreSQL and an override store."""

    def __init__(self, database: Database, overrides: Overrides, *, search_attributes: bool = False) -> None:
        store = Store(database)
        self._releases = store.releases
        self._log = store.release_log
        self._moves = TagMoves(overrides)
        self._subjects = Subjects(store, overrides, self._moves)
        self._search_attributes = search_attributes

    @activity.defn(name="request_release")
    async def request_release(self, request: ReleaseRequest) -> ReleaseState:
        """Ask the one writer of the prompt, which is started if need be, and wait for its answer."""
        info = activity.info()
        async with heartbeating():
            try:
                return await ask_release_writer(
                    activity.client(), info.task_queue, request.prompt, "request", request, f"request-{request.release_id}"
                )
            except WorkflowUpdateFailedError as error:
                told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
                raise ApplicationError(shorten(told), type=INVALID_REQUEST, non_retryable=True) from None

    @activity.defn(name="load_releases")
    async def load_releases(self, desk: ReleaseRequests) -> LoadedReleases:
        """Where the releases of a prompt stand."""
        async with heartbeating():
            with store_errors():
                undecided = await self._log.listed(prompt=desk.prompt, undecided=True, limit=10_000)
                recent = await self._log.listed(prompt=desk.prompt, limit=RECENT)
        known = {state.release_id: state for state in [*reversed(recent), *reversed(undecided)]}
        return LoadedReleases(releases=tuple(known.values()), search_attributes=self._search_attributes)

    @activity.defn(name="open_release")
    async def open_release(self, opening: OpenRelease) -> ReleaseState:
        """Store a release that is asked for, with what it is about, and say whether it waits, goes on, or has no chance."""
        request = opening.request
        async with heartbeating():
            with store_errors(), prompt_errors():
                known = await self._log.known(request.release_id)
                if known is not None:
                    return known
                subject = await self._subjects.of(request)
                opened = await self._releases.open(await self._opened(opening, subject))
                return await self._closed_if_hopeless(opened, opening.at)

    @activity.defn(name="accept_release")
    async def accept_release(self, step: ReleaseStep) -> ReleaseState:
        """Keep who approved it."""
        async with heartbeating():
            with store_errors():
                return await self._releases.accept(step)

    @activity.defn(name="carry_out_release")
    async def carry_out_release(self, step: ReleaseStep) -> ReleaseState:
        """Move the tag by compare-and-swap, and close the release in the audit log."""
        async with heartbeating():
            with store_errors(), prompt_errors():
                stored = await self._log.stored(step.release_id)
                if stored.state.status != "accepted":
                    return stored.state
                for _ in range(SWAPS):
                    done = await self._carried_out(stored, step.at)
                    if done is not None:
                        return done
        raise ApplicationError(f"{stored.state.tag} of {stored.state.prompt} keeps moving; somebody else writes it")

    @activity.defn(name="settle_release")
    async def settle_release(self, settle: Settle) -> ReleaseState:
        """Close a release that moves nothing."""
        async with heartbeating():
            with store_errors():
                settlement = Settlement(
                    settle.status, settle.message, settle.by, settle.at, comment=settle.comment, through=settle.through
                )
                return await self._releases.settle(settle.release_id, settlement)

    @activity.defn(name="remind_of_release")
    async def remind_of_release(self, step: ReleaseStep) -> ReleaseState:
        """Announce, once, that an approval is still waited for."""
        async with heartbeating():
            with store_errors():
                return await self._releases.remind(step.release_id)

    async def _opened(self, opening: OpenRelease, subject: Subject) -> NewRelease:
        request, at = opening.request, opening.at
        present = await self._moves.at(request.prompt, subject.validated_on)
        subject.check_against(present)
        found = changes(subject.base, subject.configuration, () if present is None else frozen_parts(present.template))
        largest = class_of(found.values())
        state = ReleaseState(
            release_id=request.release_id,
            prompt=request.prompt,
            kind=request.kind,
            tag=subject.tag,
            status="pending" if request.approval else "accepted",
            version=subject.version,
            base_version=present.state.version if present is not None and present.hash == subject.base_hash else None,
            base_hash=subject.base_hash,
            overlay_hash=subject.overlay_hash,
            change_class=None if largest is None else largest.name.lower(),
            changes={name: change.value for name, change in found.items()},
            run_id=request.run_id,
            candidate_id=request.candidate_id,
            asked_by=request.by,
            asked_at=at,
            reason=request.reason or subject.why,
            evidence=request.evidence,
            approvers=request.approvers if request.approval else (),
            deadline_at=at + request.deadline if request.approval else None,
            remind_at=at + request.remind if request.approval and request.remind else None,
        )
        configurations = {subject.overlay_hash: dict(subject.configuration), subject.base_hash: dict(subject.base)}
        return NewRelease(state, subject.validated_on, configurations, subject.first_template)

    async def _closed_if_hopeless(self, opened: StoredRelease, at: datetime) -> ReleaseState:
        """What cannot work now is not waited for: nobody is asked to approve it."""
        places = await self._moves.places(opened)
        refused = objection(opened, places)
        if opened.state.status in DECIDED or refused is None or await self._moves.made(opened.state, places) is not None:
            return opened.state
        return await self._closed(opened.state, *refused, at)

    async def _carried_out(self, stored: StoredRelease, at: datetime) -> ReleaseState | None:
        """Move the tag. None when it moved under our hands, and is to be looked at again."""
        state = stored.state
        places = await self._moves.places(stored)
        made = await self._moves.made(state, places)
        if made is None:
            refused = objection(stored, places)
            if refused is not None:
                return await self._closed(state, *refused, at)
            try:
                made = await self._moves.move(stored, places, at)
            except (StaleBase, VersionTaken):
                return None
        return await self._closed(state, "released", f"{made.tag} of {state.prompt} is {made.version}", at, made.version)

    async def _closed(
        self, state: ReleaseState, status: ReleaseStatus, message: str, at: datetime, version: str | None = None
    ) -> ReleaseState:
        settlement = Settlement(status, message, state.asked_by, at, version)
        return await self._releases.settle(state.release_id, settlement)


@contextmanager
def prompt_errors() -> Iterator[None]:
    """Errors of an override store as Temporal shall see them: what passes by itself is retried, the rest never."""
    try:
        yield
    except NothingToRelease as error:
        raise ApplicationError(str(error), type=INVALID_REQUEST, non_retryable=True) from None
    except PromptError as error:
        raise ApplicationError(shorten(f"{type(error).__name__}: {error}"), type=PROMPT_REFUSED, non_retryable=True) from error
