"""Worker deployments, as Temporal knows them: which versions serve a task queue, which one is current, and who says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from temporalio.api.deployment.v1 import WorkerDeploymentInfo
from temporalio.api.enums.v1 import TaskQueueType, WorkerDeploymentVersionStatus, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode

SECONDS_UNTIL_POLLED: Final = 120.0
"""How long the workers of a new version may take to start."""

SECONDS_BETWEEN_TRIES: Final = 0.5

_NOT_YET = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
"""A version is known with its first poll, and may be current once it polls what the one before does."""


async def route_to(client: Client, version: WorkerDeploymentVersion, *, patience: float = SECONDS_UNTIL_POLLED) -> None:
    """Make a version the current one of its deployment. Its workers may still be starting; a version that leaves a task queue
    of the one before unserved is refused."""
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=client.namespace,
        deployment_name=version.deployment_name,
        build_id=version.build_id,
        identity=client.identity,
    )
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError as error:
            if error.status not in _NOT_YET or asyncio.get_running_loop().time() > deadline:
                raise
        else:
            return
        await asyncio.sleep(SECONDS_BETWEEN_TRIES)


@dataclass(frozen=True)
class ServedVersion:
    """One version of a deployment that Temporal knows of."""

    build_id: str
    status: str
    """As Temporal calls it: `current`, `ramping`, `draining`, `drained`, `inactive`."""


@dataclass(frozen=True)
class ServedQueue:
    """Who asks for the workflows of a task queue."""

    unversioned: bool
    """Whether a worker does that is a version of nothing."""
    polled: tuple[WorkerDeploymentVersion, ...]
    current: WorkerDeploymentVersion | None
    """The version that new runs begin on; None where workers without one get them."""
    versions: tuple[ServedVersion, ...] = ()
    """Of the deployment that serves, those that are not over."""


async def served_queue(client: Client, task_queue: str) -> ServedQueue:
    """Look at a task queue. This changes nothing."""
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    told = await client.workflow_service.describe_task_queue(asked)
    versioned = [
        poller.deployment_options
        for poller in told.pollers
        if poller.deployment_options.worker_versioning_mode == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    ]
    polled = {WorkerDeploymentVersion(options.deployment_name, options.build_id) for options in versioned}
    current = told.versioning_info.current_deployment_version
    chosen = WorkerDeploymentVersion(current.deployment_name, current.build_id) if current.build_id else None
    deployments = sorted({version.deployment_name for version in (*polled, *([chosen] if chosen else []))})
    return ServedQueue(
        unversioned=len(versioned) < len(told.pollers),
        polled=tuple(sorted(polled, key=WorkerDeploymentVersion.to_canonical_string)),
        current=chosen,
        versions=tuple([version for name in deployments for version in await _versions_of(client, name)]),
    )


async def _versions_of(client: Client, deployment: str) -> Sequence[ServedVersion]:
    asked = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment)
    told: WorkerDeploymentInfo = (await client.workflow_service.describe_worker_deployment(asked)).worker_deployment_info
    prefix = "WORKER_DEPLOYMENT_VERSION_STATUS_"
    return [
        ServedVersion(
            summary.deployment_version.build_id,
            WorkerDeploymentVersionStatus.Name(summary.status).removeprefix(prefix).lower(),
        )
        for summary in told.version_summaries
    ]
