"""Runs that workers of two versions share, and who of them served what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from clients.embedded.stack import StackAddresses
from tests.support.worker_processes import until

SAMPLES, CANDIDATES = 20, 2
CALLS_OF_BASELINE = SAMPLES
CALLS_OF_ROUND = SAMPLES * CANDIDATES


def upgraded_spec(name: str, rounds: int, seed: int = 5, **changed: Any) -> dict[str, Any]:
    """A run whose calls are noted, and whose parts come one after the other."""
    return {
        "name": name,
        "configuration": {"x": {"value": 100, "change": "structured", "type": "integer", "min": 0, "max": 9000, "step": 7}},
        "target": {"kind": "python", "ref": "plugged:held_hill"},
        "dataset": {"items": [{"id": f"{name}{n}", "input": n} for n in range(SAMPLES)], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}, "candidates_per_round": CANDIDATES},
        "stop": {"max_rounds": rounds, "no_improvement": 0},
        "execution": {"concurrent_samples": 4, **changed},
        "seed": seed,
    }


async def on_a_database_of_its_own(stack: StackAddresses, name: str) -> StackAddresses:
    """The same servers with a fresh database, so that nobody finds the answers of others."""
    connection = await asyncpg.connect(stack.database_url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return replace(stack, database_url=urlsplit(stack.database_url)._replace(path=f"/{name}").geturl())


@asynccontextmanager
async def held(calls: Path, begun: int, *names: str) -> AsyncIterator[None]:
    """Once so many calls of a run have begun, none ends for as long as the block lasts: the runs stand still within a trial.

    Each stands still by itself, so that none is far ahead of the others."""
    marks = [Path(f"{calls}.held.{name}") for name in names]

    async def hold(name: str, mark: Path) -> None:
        await until(lambda: _calls_of(name, calls) >= begun)
        mark.touch()

    await asyncio.gather(*(hold(name, mark) for name, mark in zip(names, marks, strict=True)))
    try:
        yield
    finally:
        for mark in marks:
            mark.unlink()


def _calls_of(name: str, calls: Path) -> int:
    return len(re.findall(rf"^start \S+ {re.escape(name)}\d", calls.read_text(), re.MULTILINE)) if calls.exists() else 0


@dataclass(frozen=True)
class Served:
    """Which builds decided in a workflow, and which processes worked for it."""

    builds: tuple[str, ...]
    pids: frozenset[int]


async def served_by(client: Client, run_id: str) -> dict[str, list[Served]]:
    """Who served a run's executions (`run`), in their order, and the trials of each round (`r0`, `r1` …)."""
    found: dict[str, list[Served]] = {"run": []}
    execution: str | None = None
    while execution != "":
        events = [event async for event in _events(client, run_id, execution)]
        found["run"].insert(0, _served(events))
        for event in events:
            child = event.child_workflow_execution_started_event_attributes.workflow_execution
            if child.workflow_id:
                trial = [event async for event in _events(client, child.workflow_id, child.run_id)]
                found.setdefault(child.workflow_id.split("/")[1], []).append(_served(trial))
        execution = events[0].workflow_execution_started_event_attributes.continued_execution_run_id
    return found


def _events(client: Client, workflow_id: str, execution: str | None) -> AsyncIterator[HistoryEvent]:
    return client.get_workflow_handle(workflow_id, run_id=execution).fetch_history_events()


def _served(events: list[HistoryEvent]) -> Served:
    builds: dict[str, None] = {}
    pids: set[int] = set()
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            builds[event.workflow_task_completed_event_attributes.deployment_version.build_id] = None
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            pids.add(int(event.activity_task_started_event_attributes.identity.partition("@")[0]))
    return Served(tuple(builds), frozenset(pids))
