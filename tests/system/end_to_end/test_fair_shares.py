"""A small run gets its share of workers that a large one keeps busy: it need not wait until those before it are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

import worker
from activities.settings import Settings
from clients.embedded.stack import StackAddresses
from clients.temporal import connect
from tests.support.allowed import OPERATOR
from tests.support.engines import PLUGINS
from tests.support.upgraded_runs import on_a_database_of_its_own
from workflows.policies import SHARDS_AT_ONCE, SHARDS_PER_TRIAL

PLACES = 2
"""Shards that the worker of these tests has room for."""

WAITING = SHARDS_AT_ONCE - PLACES
"""Shards of the large run that were there first, at any time."""

QUEUE = "shares"


def spec(name: str, samples: int, **execution: Any) -> dict[str, Any]:
    return {
        "name": name,
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": "plugged:slow_hill"},
        "dataset": {"items": [{"id": f"{name}{n}", "input": n} for n in range(samples)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}},
        "stop": {"max_rounds": 1},
        "execution": {"concurrent_samples": 4, "samples_per_shard": 2, **execution},
    }


@pytest.fixture
async def client(unserved_stack: StackAddresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(worker, "CONCURRENT_SHARDS", PLACES)
    place = await on_a_database_of_its_own(unserved_stack, "shares")
    settings = Settings(
        place.database_url,
        task_queue=QUEUE,
        evaluation_task_queue=f"{QUEUE}-evaluation",
        operator=OPERATOR,
        plugins="plugged",
        plugin_path=PLUGINS,
        grace=timedelta(seconds=1),
    )
    client = await connect(unserved_stack.temporal_address)
    async with worker.serving(client, settings):
        yield client


async def test_a_small_run_goes_on_while_a_large_one_has_most_of_its_calls_to_go(client: Client) -> None:
    large, small = spec("nightly", 2 * SHARDS_PER_TRIAL), {"of-the-same-priority": 3, "of-a-higher-priority": 5}
    nightly = await client.start_workflow("OptimizationWorkflow", large, id="nightly", task_queue=QUEUE)
    baseline = await first_trial(client, "nightly")
    await awaited(client, baseline, EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)

    for run_id, priority in small.items():
        given = spec(run_id, 4, priority=priority)
        await client.execute_workflow("OptimizationWorkflow", given, id=run_id, task_queue=QUEUE)

    others = shards(await events_of(client, baseline))
    assert sum(shard.started < FAR_AWAY for shard in others) < SHARDS_PER_TRIAL / 2
    await nightly.cancel()
    for run_id, priority in small.items():
        events = await events_of(client, await first_trial(client, run_id))
        told = events[0].workflow_execution_started_event_attributes.priority
        assert (told.priority_key, told.fairness_key) == (6 - priority, run_id)
        mine = min(shards(events))
        ahead = [other for other in others if other.scheduled < mine.scheduled < other.started]
        assert len(ahead) >= WAITING / 2, "hardly anybody waited: this shows nothing"
        assert sum(other.started < mine.started for other in ahead) <= 2 * PLACES, "it waited for those that came before it"


FAR_AWAY = 1 << 63


class Shard(NamedTuple):
    """When it was asked for and when it began, by the server's clock."""

    scheduled: int
    started: int


def shards(events: list[HistoryEvent]) -> list[Shard]:
    """The shards of a trial. Temporal tells that one has started when it is over; until then that is far away."""
    started = {
        event.activity_task_started_event_attributes.scheduled_event_id: event.event_time.ToNanoseconds()
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    }
    asked = [event for event in events if event.activity_task_scheduled_event_attributes.activity_type.name == "evaluate_shard"]
    return [Shard(event.event_time.ToNanoseconds(), started.get(event.event_id, FAR_AWAY)) for event in asked]


async def events_of(client: Client, workflow_id: str) -> list[HistoryEvent]:
    return [event async for event in client.get_workflow_handle(workflow_id).fetch_history_events()]


async def awaited(client: Client, workflow_id: str, kind: EventType.ValueType) -> HistoryEvent:
    """The first event of a kind, as soon as it is there."""
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events(wait_new_event=True):
        if event.event_type == kind:
            return event
    raise AssertionError(f"{workflow_id} ended without {EventType.Name(kind)}")


async def first_trial(client: Client, run_id: str) -> str:
    """Its workflow id."""
    started = await awaited(client, run_id, EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)
    return started.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
