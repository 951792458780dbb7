"""Asking the one writer of a prompt: an update that starts its workflow if none is open."""

from __future__ import annotations

import asyncio

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from workflows.model.spec.release import ReleaseRequest, ReleaseRequests, ReleaseState, Ruling, release_workflow_id

JUST_CLOSED = (RPCStatusCode.NOT_FOUND, RPCStatusCode.ABORTED, RPCStatusCode.FAILED_PRECONDITION)
"""What an update is answered that came while an idle writer was closing: it was never taken up."""

ATTEMPTS = 20


async def ask_release_writer(
    client: Client, task_queue: str, prompt: str, update: str, asked: ReleaseRequest | Ruling, update_id: str
) -> ReleaseState:
    """The answer of the prompt's writer. The same update id is never taken up twice by one execution of it."""
    for attempt in range(ATTEMPTS):
        try:
            state: ReleaseState = await client.execute_update_with_start_workflow(
                update,
                asked,
                id=update_id,
                result_type=ReleaseState,
                start_workflow_operation=WithStartWorkflowOperation(
                    "ReleaseWorkflow",
                    ReleaseRequests(prompt=prompt),
                    id=release_workflow_id(prompt),
                    task_queue=task_queue,
                    id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                    static_summary=f"the one writer of {prompt}",
                ),
            )
        except RPCError as error:
            if error.status not in JUST_CLOSED or attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.05 * (attempt + 1))
        else:
            return state
    raise AssertionError("unreachable")
