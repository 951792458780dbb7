"""What a run really waits for: the task queues on which something of it waits and nobody serves, whichever they are.

Temporal knows: an execution is described with what of it waits, its activities with their queues, and its children by name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from clients.runs.lookup import KnownRun
from clients.runs.service.pollers import ACTIVITIES, WORKFLOWS, Pollers, is_alive
from clients.runs.service.servers import Servers

MOST_CHILDREN: Final = 20
"""Trials of a run that are looked at; what they wait for is alike."""
MOST_CALLS: Final = 5
OWN_ACTIVITY: Final = "OwnActivityWorkflow"


def pollers_of(servers: Servers) -> Pollers:
    """Who serves the queues of these servers, asked now."""
    return Pollers(servers.client, nearby=servers.embedded)


async def waits_of(servers: Servers, run: KnownRun, pollers: Pollers | None = None) -> tuple[str, ...]:
    """The task queues that an open run waits for a worker on."""
    if run.execution is None or not run.is_open:
        return ()
    return await queues_waited_for(servers, run.execution, pollers or pollers_of(servers))


async def queues_waited_for(servers: Servers, execution: WorkflowExecutionDescription, pollers: Pollers) -> tuple[str, ...]:
    """The same of an execution. Without a worker for its workflow nothing goes on, whatever else there is."""
    if not await pollers.serve(execution.task_queue, WORKFLOWS):
        return (execution.task_queue,)
    children = [child.workflow_id for child in execution.raw_description.pending_children[:MOST_CHILDREN]]
    children += await _own_calls(servers, execution.id)
    described = await asyncio.gather(*(_described(servers, child) for child in children))
    open_ones = [one for one in described if one is not None and one.status == WorkflowExecutionStatus.RUNNING]
    found: dict[str, None] = {}
    for one in (execution, *open_ones):
        if not await pollers.serve(one.task_queue, WORKFLOWS):
            found[one.task_queue] = None
        for queue in _activity_queues(one.raw_description.pending_activities, nearby=pollers.nearby):
            if not await pollers.serve(queue, ACTIVITIES):
                found[queue] = None
    return tuple(found)


async def _own_calls(servers: Servers, run_id: str) -> list[str]:
    """The workflows that call the user's scorers and proposers for a run; they are no children of it."""
    if "'" in run_id:
        return []  # Temporal has no way to ask for it
    asked = f"WorkflowType = '{OWN_ACTIVITY}' AND ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{run_id}/'"
    with contextlib.suppress(RPCError):
        return [call.id async for call in servers.client.list_workflows(asked, limit=MOST_CALLS)]
    return []


async def _described(servers: Servers, workflow_id: str) -> WorkflowExecutionDescription | None:
    with contextlib.suppress(RPCError):
        return await servers.client.get_workflow_handle(workflow_id).describe()
    return None


def _activity_queues(pending: Sequence[PendingActivityInfo], *, nearby: bool) -> list[str]:
    """The queues on which activities wait, but those where one is at work: a worker with its hands full does not poll."""
    waiting: dict[str, None] = {}
    served: set[str] = set()
    for activity in pending:
        queue = activity.activity_options.task_queue.name
        started = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        if started and not (nearby and is_alive(activity.last_worker_identity) is False):
            served.add(queue)
        elif queue:
            waiting[queue] = None
    return [queue for queue in waiting if queue not in served]


def told_waits(queues: Sequence[str]) -> str:
    """As the end of a sentence that begins with `waits for`."""
    if not queues:
        return "a worker"
    if len(queues) == 1:
        return f"a worker on task queue {queues[0]!r}"
    return f"workers on task queues {', '.join(map(repr, queues[:-1]))} and {queues[-1]!r}"
