"""Who serves which task queue, as Temporal knows it: asking costs nothing and starts nothing."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from workflows.model.remote_target import ActivityTarget
from workflows.model.target import Target

POLLER_IS_GONE_AFTER: Final = timedelta(seconds=75)
"""Long polls come back once a minute."""

WORKFLOWS: Final = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES: Final = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


async def is_polled(client: Client, name: str, kind: TaskQueueType.ValueType) -> bool:
    """Whether somebody does; true when the server does not say."""
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind)
    with contextlib.suppress(RPCError):
        pollers = (await client.workflow_service.describe_task_queue(request)).pollers
        oldest = datetime.now(UTC) - POLLER_IS_GONE_AFTER
        return any(poller.last_access_time.ToDatetime(UTC) > oldest for poller in pollers)
    return True


async def unserved_target(client: Client, target: Target) -> str | None:
    """What is missing of a target that is somebody else's activity."""
    if not isinstance(target, ActivityTarget) or await is_polled(client, target.task_queue, ACTIVITIES):
        return None
    where = f"namespace {client.namespace} of {client.service_client.config.target_host}"
    return (
        f"target.task_queue: nobody serves activities of task queue {target.task_queue!r} in {where}; start the worker "
        f"that has activity {target.activity!r} there, or correct the name: until then a trial waits"
    )


def unserved_without_servers(target: Target) -> str | None:
    """The same while the embedded servers do not run."""
    if not isinstance(target, ActivityTarget):
        return None
    return (
        f"target.task_queue: nobody can serve task queue {target.task_queue!r} yet, since the embedded servers do not run; "
        f"start them with `ratchet dev`, and the worker that has activity {target.activity!r} with the addresses it prints"
    )
