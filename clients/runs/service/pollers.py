"""Who serves which task queue, as Temporal knows it: asking costs nothing and starts nothing."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from clients.checks.plugin_inspection import plugin_uses
from workflows.model.spec.request import OptimizationRequest

POLLER_IS_GONE_AFTER: Final = timedelta(seconds=75)
"""Long polls come back once a minute."""

WORKFLOWS: Final = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES: Final = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


async def is_polled(client: Client, name: str, kind: TaskQueueType.ValueType, *, nearby: bool = False) -> bool:
    """Whether somebody does; true when the server does not say.

    `nearby` says that whoever polls does so on this machine, where one sees at once who is gone. Elsewhere that takes until
    the last poll would have come back.
    """
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind)
    with contextlib.suppress(RPCError):
        pollers = (await client.workflow_service.describe_task_queue(request)).pollers
        return any(_polls(poller, nearby) for poller in pollers)
    return True


def _polls(poller: PollerInfo, nearby: bool) -> bool:
    alive = is_alive(poller.identity) if nearby else None
    if alive is not None:
        return alive
    return bool(poller.last_access_time.ToDatetime(UTC) > datetime.now(UTC) - POLLER_IS_GONE_AFTER)


def is_alive(identity: str) -> bool | None:
    """Whether a worker of this machine still lives, by the name that workers have unless they are given another; None for
    every other one."""
    found = re.fullmatch(r"(\d{1,9})@(.+)", identity)
    if found is None or found[2] != socket.gethostname():
        return None
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


@dataclass
class Pollers:
    """Who serves the queues of these servers; each is asked for once."""

    client: Client
    nearby: bool
    _known: dict[tuple[str, int], bool] = field(default_factory=dict)

    async def serve(self, name: str, kind: TaskQueueType.ValueType) -> bool:
        """Whether anybody does."""
        if (name, kind) not in self._known:
            self._known[name, kind] = await is_polled(self.client, name, kind, nearby=self.nearby)
        return self._known[name, kind]


async def unserved_activities(client: Client, request: OptimizationRequest) -> list[str]:
    """What is missing of the user's own activities: target, scorers and proposer."""
    return [
        f"{named.field}: nobody serves activities of task queue {named.task_queue!r} in {_place(client)}; start the "
        f"worker that has activity {named.activity!r} there, or correct the name: until then a trial waits"
        for named in request.own_activities()
        if not await is_polled(client, named.task_queue, ACTIVITIES)
    ]


async def unserved_queues(pollers: Pollers, request: OptimizationRequest, task_queue: str, *, own: bool) -> list[str]:
    """Every task queue that a run of this spec needs and nobody serves. `own` says that `ratchet run` brings workers of the
    usual queues along; a worker with the spec's own plug-ins it always does."""
    named = request.execution.evaluation_task_queue
    needed = [] if own else [("execution", task_queue, WORKFLOWS)]
    if named is not None:
        needed.append(("execution.evaluation_task_queue", named, ACTIVITIES))
    elif not own and not plugin_uses(request):
        needed.append(("execution", f"{task_queue}-evaluation", ACTIVITIES))
    found = [_unserved(*where, _place(pollers.client)) for where in needed if not await pollers.serve(where[1], where[2])]
    return [*found, *await unserved_activities(pollers.client, request)]


def _unserved(field_: str, queue: str, kind: TaskQueueType.ValueType, place: str) -> str:
    what = "workflows" if kind == WORKFLOWS else "activities"
    fix = "or correct the name" if field_ != "execution" else "or name another with RATCHET_TASK_QUEUE"
    return (
        f"{field_}: nobody serves {what} of task queue {queue!r} in {place}; "
        f"start a worker there (`ratchet worker`), {fix}: until then a run waits"
    )


def _place(client: Client) -> str:
    return f"namespace {client.namespace} of {client.service_client.config.target_host}"


def unserved_without_servers(request: OptimizationRequest) -> list[str]:
    """The same while the embedded servers do not run: what `ratchet run` does not bring along."""
    found: list[str] = []
    named = request.execution.evaluation_task_queue
    if named is not None:
        found.append(
            f"execution.evaluation_task_queue: nobody can serve task queue {named!r} yet, since the embedded servers do not "
            "run; start them with `ratchet dev`, and a worker of that queue with the addresses it prints"
        )
    found += [
        f"{own.field}: nobody can serve task queue {own.task_queue!r} yet, since the embedded servers do not run; "
        f"start them with `ratchet dev`, and the worker that has activity {own.activity!r} with the addresses it prints"
        for own in request.own_activities()
    ]
    return found
