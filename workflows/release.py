"""ReleaseWorkflow: the one writer of a prompt. It promotes, rolls back, waits for approvals, and forgets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Self

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from workflows.continuation import versioning_behavior
    from workflows.contracts import Releasing
    from workflows.error_reason import reason_of
    from workflows.inputs import refuse_other_than_one
    from workflows.model.failures import INVALID_REQUEST
    from workflows.model.spec.release import (
        OpenRelease,
        ReleaseLog,
        ReleaseRequest,
        ReleaseRequests,
        ReleaseState,
        ReleaseStep,
        Ruling,
        Settle,
        release_workflow_id,
    )
    from workflows.policies import RELEASE
    from workflows.rules.releases.pending import PendingReleases
    from workflows.search_attributes import PROMPT

MOST_PENDING = 100
"""Releases of one prompt that wait for approval."""

BETWEEN_LOOKS = timedelta(hours=1)
"""How long a writer that waits for approvals rests at most."""


@workflow.defn
class ReleaseWorkflow:
    """Releases of one prompt, one after the other. Its state is the store's: every execution begins by reading it."""

    def __new__(cls, *inputs: object) -> Self:
        refuse_other_than_one(inputs, "ReleaseDesk")
        return super().__new__(cls)

    @workflow.init
    def __init__(self, desk: ReleaseRequests) -> None:
        wanted = release_workflow_id(desk.prompt)
        if workflow.info().workflow_id != wanted:
            raise _refused(f"the one writer of {desk.prompt} has the workflow id {wanted!r}; start it under that id")
        self.desk = desk
        self.releases = PendingReleases(desk.prompt)
        self.writing = asyncio.Lock()
        self.loaded = False
        self.handled = 0
        self.rested = False

    @workflow.run
    async def run(self, desk: ReleaseRequests) -> ReleaseLog:
        try:
            await self._load()
            while True:
                handled = self.handled
                await self._do_what_is_due()
                await self._continue_as_new_when_long()
                if await self._nothing_more_comes(handled):
                    return self.releases.log()
        except asyncio.CancelledError:
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise

    # -- what happens by itself -------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """What an execution before left to do, because it was cut off, is done first."""
        loaded = await workflow.execute_activity_method(
            Releasing.load_releases, self.desk, summary="read where the releases stand", **RELEASE
        )
        self.releases.remember(loaded.releases)
        if loaded.search_attributes:
            workflow.upsert_search_attributes([PROMPT.value_set(self.desk.prompt)])
        for state in self.releases.accepted:
            await self._carry_out(state)
        self.loaded = True
        self._show()

    async def _do_what_is_due(self) -> None:
        async with self.writing:
            for state in self.releases.overdue(workflow.now()):
                told = "nobody approved it in time; `ratchet release` asks again"
                await self._settle(
                    Settle(release_id=state.release_id, at=workflow.now(), status="expired", by="ratchet", message=told)
                )
            for state in self.releases.to_remind_of(workflow.now()):
                step = ReleaseStep(release_id=state.release_id, at=workflow.now())
                reminded = await workflow.execute_activity_method(
                    Releasing.remind_of_release, step, summary="remind of an approval", **RELEASE
                )
                self._note(reminded)

    async def _continue_as_new_when_long(self) -> None:
        info, most = workflow.info(), self.desk.releases_per_execution
        is_long = info.is_continue_as_new_suggested() or (most is not None and self.handled >= most)
        if is_long or (self.rested and versioning_behavior(info) is not None):
            await workflow.wait_condition(workflow.all_handlers_finished)
            workflow.continue_as_new(self.desk, initial_versioning_behavior=versioning_behavior(info))

    async def _nothing_more_comes(self, handled: int) -> bool:
        """Wait until somebody asked for something or something is due; whether it may rest, having nothing to wait for.

        What is due may be weeks away. It looks up in between: other workers may serve by then, and these wait for it to leave.
        """
        due = self.releases.next_due()
        patience = self.desk.idle if due is None else min(BETWEEN_LOOKS, max(due - workflow.now(), timedelta(0)))
        self.rested = True
        try:
            await workflow.wait_condition(lambda: self.handled != handled, timeout=patience)
        except TimeoutError:
            return due is None and workflow.all_handlers_finished()
        return False

    # -- what is asked ----------------------------------------------------------------------------------------------------

    @workflow.update(description="Ask for a release: promote, canary, rollback or import")
    async def request(self, asked: ReleaseRequest) -> ReleaseState:
        async with self._serialized():
            state = await workflow.execute_activity_method(
                Releasing.open_release,
                OpenRelease(request=asked, at=workflow.now()),
                summary=f"{asked.kind} {asked.tag}",
                **RELEASE,
            )
            self._note(state)
            return await self._carry_out(state)

    @request.validator
    def _may_request(self, asked: ReleaseRequest) -> None:
        if asked.prompt != self.desk.prompt:
            raise _refused(f"prompt is {asked.prompt!r}, but this is the one writer of {self.desk.prompt!r}")
        if asked.approval and len(self.releases.pending) >= MOST_PENDING:
            raise _refused(f"{MOST_PENDING} releases of {self.desk.prompt} wait for approval already; decide on some of them")

    @workflow.update(description="Approve a release that waits for it, and carry it out")
    async def approve(self, ruling: Ruling) -> ReleaseState:
        async with self._serialized():
            state = self._waiting_for(ruling)
            if state.approvers and ruling.by not in state.approvers:
                raise _refused(f"{ruling.by!r} may not approve this release; one of {', '.join(state.approvers)} may")
            step = ReleaseStep(
                release_id=state.release_id, at=workflow.now(), by=ruling.by, comment=ruling.comment, through=ruling.through
            )
            accepted = await workflow.execute_activity_method(
                Releasing.accept_release, step, summary=f"approved by {ruling.by}", **RELEASE
            )
            self._note(accepted)
            return await self._carry_out(accepted)

    @approve.validator
    def _may_approve(self, ruling: Ruling) -> None:
        if self.loaded:
            self._waiting_for(ruling)

    @workflow.update(description="Reject a release that waits for approval")
    async def reject(self, ruling: Ruling) -> ReleaseState:
        async with self._serialized():
            state = self._waiting_for(ruling)
            told = f"rejected by {ruling.by}" + (f": {ruling.comment}" if ruling.comment else "")
            return await self._settle(
                Settle(
                    release_id=state.release_id,
                    at=workflow.now(),
                    status="rejected",
                    by=ruling.by,
                    message=told,
                    comment=ruling.comment,
                    through=ruling.through,
                )
            )

    @reject.validator
    def _may_reject(self, ruling: Ruling) -> None:
        if self.loaded:
            self._waiting_for(ruling)

    @workflow.query(description="The releases that wait for approval")
    def pending(self) -> ReleaseLog:
        return self.releases.waiting()

    @workflow.query(description="The newest releases, and where each stands")
    def recent(self) -> ReleaseLog:
        return self.releases.log()

    # -- how it is done ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _serialized(self) -> AsyncIterator[None]:
        """One at a time, in the order in which they came, and not before it is known where things stand."""
        try:
            await workflow.wait_condition(lambda: self.loaded)
            async with self.writing:
                yield
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise _refused(reason_of(error)) from None
        finally:
            self.handled += 1

    def _waiting_for(self, ruling: Ruling) -> ReleaseState:
        state = self.releases.get(ruling.release_id)
        if state is None:
            raise _refused(f"{self.desk.prompt} has no release {ruling.release_id!r} that waits for approval")
        if state.status != "pending":
            raise _refused(f"release {ruling.release_id} is {state.status} already")
        if state.deadline_at is not None and state.deadline_at <= workflow.now():
            raise _refused(f"release {ruling.release_id} had to be decided by {state.deadline_at:%Y-%m-%d %H:%M} UTC")
        return state

    async def _carry_out(self, state: ReleaseState) -> ReleaseState:
        """Move the tag, if that is what is to be done next; what cannot be done for good is told in the audit log."""
        if state.status != "accepted":
            return state
        step = ReleaseStep(release_id=state.release_id, at=workflow.now())
        try:
            done = await workflow.execute_activity_method(
                Releasing.carry_out_release, step, summary=f"{state.kind} {state.tag}", **RELEASE
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return await self._settle(
                Settle(release_id=state.release_id, at=workflow.now(), status="failed", by="ratchet", message=reason_of(error))
            )
        return self._note(done)

    async def _settle(self, settle: Settle) -> ReleaseState:
        settled = await workflow.execute_activity_method(Releasing.settle_release, settle, summary=settle.status, **RELEASE)
        return self._note(settled)

    def _note(self, state: ReleaseState) -> ReleaseState:
        self.releases.note(state)
        self._show()
        return state

    def _show(self) -> None:
        workflow.set_current_details(self.releases.details())


def _refused(message: str) -> ApplicationError:
    return ApplicationError(message, type=INVALID_REQUEST, non_retryable=True)
