"""Activities of the user's that score or propose. An activity cannot call another one, so a small workflow does it for each.

The workflow's id says what is asked for: a worker that is killed while it waits finds the call again, so that nothing is called
twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, TimeoutError, TimeoutType, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from ratchet._formats.canonical import NotCanonical, canonical_json, content_hash, normalize
from workflows.model.activities.own_activity_calls import OwnActivityCall
from workflows.model.failures import shorten
from workflows.model.spec.extensions.called_activity import CalledActivity
from workflows.rules.scoring.external_answers import LARGEST_ANSWER, decoded

WORKFLOW: Final = "OwnActivityWorkflow"
LARGEST_ARGUMENT: Final = 1_900_000
"""Bytes. Temporal takes 2 MB at once."""
LONGEST_CANCELLATION: Final = 5.0
"""Seconds that telling a call it is not wanted any more may take."""


class OwnActivityFailed(Exception):
    """The activity was called, and gave nothing that can be used."""


class OwnActivityAway(Exception):
    """Nobody took the call."""


class OwnActivities:
    """Calls them, by way of the workers that serve workflows."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def call(self, named: CalledActivity, argument: dict[str, Any], place: str) -> Any:
        """What the activity returns, as JSON. `place` is what it is asked for, such as a run's id and the word `score`.

        Raises OwnActivityFailed and OwnActivityAway. When this is cancelled, so is the call.
        """
        size = len(canonical_json(argument).encode())
        if size > LARGEST_ARGUMENT:
            raise OwnActivityFailed(
                f"the call has {size:,} bytes; an activity takes at most {LARGEST_ARGUMENT:,}: keep what is large behind a "
                "reference that the activity resolves"
            )
        try:
            handle = await self._started(named, argument, f"{place}/{content_hash(argument)[:32]}")
            return await self._result(handle, named)
        except RPCError as error:
            raise OwnActivityAway(f"Temporal did not take the call: {error.message}") from None

    async def _started(
        self, named: CalledActivity, argument: dict[str, Any], workflow_id: str
    ) -> WorkflowHandle[Any, RawValue]:
        call = OwnActivityCall(
            activity=named.activity,
            task_queue=named.task_queue,
            argument=argument,
            timeout=named.timeout,
            heartbeat=named.heartbeat,
            attempts=named.attempts,
            patience=named.patience,
        )
        try:
            return await self._client.start_workflow(
                WORKFLOW,
                call,
                id=workflow_id,
                task_queue=self._task_queue,
                result_type=RawValue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                execution_timeout=call.longest,
                static_summary=shorten(f"{named.activity} on {named.task_queue}", 150),
            )
        except WorkflowAlreadyStartedError:
            return self._client.get_workflow_handle(workflow_id, result_type=RawValue)

    async def _result(self, handle: WorkflowHandle[Any, RawValue], named: CalledActivity) -> Any:
        try:
            returned = await handle.result()
        except asyncio.CancelledError:
            with contextlib.suppress(RPCError, TimeoutError, asyncio.TimeoutError):
                async with asyncio.timeout(LONGEST_CANCELLATION):
                    await handle.cancel()
            raise
        except WorkflowFailureError as failure:
            raise _told(failure, named) from None
        return _read(returned, named)


def _read(returned: RawValue, named: CalledActivity) -> Any:
    data = returned.payload.data
    if len(data) > LARGEST_ANSWER:
        raise OwnActivityFailed(f"{named.activity} returned {len(data):,} bytes; at most {LARGEST_ANSWER:,} are read")
    try:
        return normalize(decoded(returned.payload.metadata.get("encoding", b""), data))
    except (ValueError, NotCanonical, RecursionError) as error:
        raise OwnActivityFailed(f"what {named.activity} returned is unusable: {error}") from None


def _told(failure: BaseException, named: CalledActivity) -> Exception:
    """Whose fault it is, by what is innermost."""
    cause = failure
    while (inner := getattr(cause, "cause", None)) is not None:
        cause = inner
    if isinstance(cause, TimeoutError) and cause.type in (TimeoutType.SCHEDULE_TO_START, TimeoutType.SCHEDULE_TO_CLOSE, None):
        waited = f"{named.patience.total_seconds():g} s"
        return OwnActivityAway(f"no worker took {named.activity} on task queue {named.task_queue!r} within {waited}")
    if isinstance(cause, TimeoutError):
        longest = (named.heartbeat if cause.type == TimeoutType.HEARTBEAT else None) or named.timeout
        what = "was lost with its worker: no heartbeat for" if cause.type == TimeoutType.HEARTBEAT else "took longer than"
        return OwnActivityFailed(f"{named.activity} {what} {longest.total_seconds():g} s")
    kind = f" raised {cause.type}" if isinstance(cause, ApplicationError) and cause.type else " failed"
    return OwnActivityFailed(shorten(f"{named.activity}{kind}: {getattr(cause, 'message', None) or cause}", 1_000))
