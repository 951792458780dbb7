"""What a run waits for is said by the name of the task queue that nobody serves."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import WorkflowFailureError

from activities.settings import ACTIVITY_QUEUES
from clients.runs.service.servers import Servers
from clients.runs.views.waits import pollers_of, queues_waited_for
from tests.support.allowed import allow
from tests.support.engines import Engines
from tests.support.hill_specs import hill_spec


async def test_the_queue_of_a_scorer_that_nobody_serves_is_named(engines: Engines, servers: Servers) -> None:
    """Its calls are workflows of their own, and no children of the run."""
    allow(ACTIVITY_QUEUES, "nobody-scores-here")
    scorer = {"kind": "activity", "name": "height", "activity": "own", "task_queue": "nobody-scores-here"}
    handle = await engines.start(hill_spec(scorers=[scorer]), run_id="waits-for-its-scorer")
    async with asyncio.timeout(60):
        while await queues_waited_for(servers, await handle.describe(), pollers_of(servers)) != ("nobody-scores-here",):
            await asyncio.sleep(0.1)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
