"""Targets that are somebody else's activity, served by a worker of their own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.settings import ACTIVITY_QUEUES
from tests.support.allowed import allow
from tests.support.engines import Engines

Call = dict[str, Any]
_queues = itertools.count(1)


def height(call: Call) -> dict[str, Any]:
    return {"value": {"height": 1 - abs(call["configuration"]["x"] - 700) / 1000}, "tokens": 10, "cost": 0.001}


@asynccontextmanager
async def theirs(engines: Engines, answer: Callable[[Call], Any], *, allowed: bool = True) -> AsyncIterator[dict[str, Any]]:
    """A worker of somebody else with one activity; gives the target that names it."""

    @activity.defn(name="theirs")
    async def served(call: Call) -> Any:
        answered = answer(call)
        return await answered if asyncio.iscoroutine(answered) else answered

    queue = f"theirs-{next(_queues)}"
    if allowed:
        allow(ACTIVITY_QUEUES, queue)
    async with Worker(engines.client, task_queue=queue, activities=[served], graceful_shutdown_timeout=timedelta(0)):
        yield {"kind": "activity", "activity": "theirs", "task_queue": queue}


async def failure(engines: Engines, spec: dict[str, Any]) -> tuple[str, str]:
    """The run's id, and why it failed."""
    handle = await engines.start(spec)
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    return handle.id, failed.value.cause.message
