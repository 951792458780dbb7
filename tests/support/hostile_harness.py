"""Runs many hostile cases side by side, and tells of each how it ended, how long that took and what it left behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.endpoints.chat_models import Patience
from store.connection import Database

TASK_QUEUE = "hostile"
LONGEST = 60.0
SIDE_BY_SIDE = 12
SHORT_PATIENCE = Patience(seconds=3.0, attempts=3, first_delay=0.02, longest_delay=0.1)
LIES = ("malformed_json", "empty_choices", "truncated_stream", "nan_usage", "null_content")

Handle = WorkflowHandle[Any, Any]


def spec(**parts: Any) -> dict[str, Any]:
    """A small run that would succeed; keyword arguments replace parts of it."""
    return {
        "name": "hostile",
        "configuration": {"x": {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}},
        "target": {"kind": "python", "ref": "plugged:hill"},
        "dataset": {"items": [{"id": "a", "input": 1}, {"id": "b", "input": 2}], "splits": "none"},
        "scorers": [{"kind": "python", "name": "height", "ref": "plugged:height"}],
        "objective": {"metric": "height"},
        "optimizer": {"proposer": {"kind": "step"}},
        "stop": {"max_rounds": 2, "no_improvement": 0},
        "execution": {"sample_timeout": "10s"},
        "seed": 7,
    } | parts


def raw(data: bytes | str, encoding: str | None = "json/plain", **metadata: str) -> RawValue:
    """A payload as it is on the wire."""
    told = {name: value.encode() for name, value in metadata.items()}
    if encoding is not None:
        told["encoding"] = encoding.encode()
    return RawValue(Payload(metadata=told, data=data.encode() if isinstance(data, str) else data))


def as_json(value: Any) -> RawValue:
    """Plain JSON, with whatever `json` lets through: NaN, infinities, lone surrogates, endless digits."""
    return raw(json.dumps(value))


@dataclass(frozen=True)
class Ended:
    """How a case ended."""

    run_id: str
    status: str
    """What Temporal says, or `refused` when it did not even start the run, or `hangs`."""
    type: str | None
    message: str
    seconds: float
    result: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """What is in the store under the run's id, table by table."""
    stored: dict[str, Any] = field(default_factory=dict)
    """The run's own row."""

    def __str__(self) -> str:
        return f"{self.run_id} {self.status} after {self.seconds:.1f} s: {self.type}: {self.message}"


@dataclass(frozen=True)
class Arena:
    """A running stack with a worker that is exposed to everything."""

    client: Client
    database: Database
    base_url: str
    """Of the simulated model server."""

    async def start(
        self, arguments: Sequence[Any], run_id: str, workflow: str = "OptimizationWorkflow"
    ) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(workflow, args=arguments, id=run_id, task_queue=TASK_QUEUE)

    async def run(
        self, arguments: Sequence[Any], run_id: str, workflow: str = "OptimizationWorkflow", longest: float = LONGEST
    ) -> Ended:
        """One case to its end, or until it is taken for hanging."""
        began = time.monotonic()
        status, kind, message, result = await self._end(arguments, run_id, workflow, longest)
        seconds = time.monotonic() - began
        stored = await self._row(run_id)
        return Ended(run_id, status, kind, message, seconds, result, await self._rows(run_id), stored)

    async def run_all(self, cases: Mapping[str, Sequence[Any]], workflow: str = "OptimizationWorkflow") -> dict[str, Ended]:
        """Every case, so many side by side."""
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def one(name: str, arguments: Sequence[Any]) -> Ended:
            async with room:
                return await self.run(arguments, f"hostile-{name}", workflow)

        ended = await asyncio.gather(*[one(name, arguments) for name, arguments in cases.items()])
        return dict(zip(cases, ended, strict=True))

    async def _end(
        self, arguments: Sequence[Any], run_id: str, workflow: str, longest: float
    ) -> tuple[str, str | None, str, dict[str, Any]]:
        try:
            async with asyncio.timeout(longest):
                handle = await self.start(arguments, run_id, workflow)
                try:
                    result = await self._result(handle)
                    return "completed", result["stop_reason"], result["message"], result
                except WorkflowFailureError as failed:
                    cause = failed.cause
                    kind = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
                    shown = cause.message if isinstance(cause, ApplicationError) else str(cause)
                    status = (await handle.describe()).status
                    return (status or WorkflowExecutionStatus.FAILED).name.lower(), kind, shown, {}
        except RPCError as error:
            return "refused", error.status.name, error.message, {}
        except TimeoutError:
            why = await self.why_it_hangs(run_id)
            await self._terminate(run_id)
            return "hangs", None, f"still running after {longest:g} s: {why}", {}

    async def _result(self, handle: WorkflowHandle[Any, Any]) -> dict[str, Any]:
        """A run's result as soon as it is over. A busy dev server sometimes does not wake up who waits for it."""
        while True:
            waiting = asyncio.ensure_future(handle.result())
            await asyncio.wait({waiting}, timeout=1.0)
            while not waiting.done() and (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                await asyncio.wait({waiting}, timeout=1.0)
            if waiting.done():
                result: dict[str, Any] = await waiting
                return result
            waiting.cancel()

    async def finish(self, handle: WorkflowHandle[Any, Any], longest: float = LONGEST) -> dict[str, Any]:
        """A run's result, or why there is none."""
        try:
            async with asyncio.timeout(longest):
                return await self._result(handle)
        except TimeoutError:
            raise AssertionError(f"{handle.id} hangs: {await self.why_it_hangs(handle.id)}") from None

    async def why_it_hangs(self, run_id: str) -> str:
        """What the run waits for, and what keeps failing."""
        handle = self.client.get_workflow_handle(run_id)
        try:
            described = (await handle.describe()).raw_description
            events = [event async for event in handle.fetch_history_events()]
        except RPCError as error:
            return str(error)
        failed = [event.workflow_task_failed_event_attributes.failure.message for event in events][-5:]
        waiting = [f"{a.activity_type.name} {a.attempt} {a.last_failure.message}" for a in described.pending_activities]
        children = [child.workflow_id for child in described.pending_children]
        last = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in events[-4:]]
        below = [f"({child}: {await self.why_it_hangs(child)})" for child in children]
        return f"last events {last}, failures {[text for text in failed if text]}, activities {waiting}, children {below}"

    async def _terminate(self, run_id: str) -> None:
        """A case that hangs must not slow down the others."""
        try:
            await self.client.get_workflow_handle(run_id).terminate("the test gave up on it")
        except RPCError:
            return

    async def _row(self, run_id: str) -> dict[str, Any]:
        if "\x00" in run_id:
            return {}
        async with self.database.connection() as connection:
            row = await connection.fetchrow("SELECT status, stop_reason, message FROM runs WHERE run_id = $1", run_id)
        return dict(row) if row is not None else {}

    async def _rows(self, run_id: str) -> dict[str, int]:
        """Every table that knows runs is looked at, so that a table added later is too."""
        if "\x00" in run_id:
            return {}
        async with self.database.connection() as connection:
            tables = await connection.fetch(
                "SELECT table_name FROM information_schema.columns JOIN information_schema.tables "
                "USING (table_schema, table_name) "
                "WHERE column_name = 'run_id' AND table_type = 'BASE TABLE' AND table_schema = 'public'"
            )
            counted = {
                table["table_name"]: await connection.fetchval(
                    f'SELECT count(*) FROM "{table["table_name"]}" WHERE run_id = $1', run_id
                )
                for table in tables
            }
            counted["datasets"] = await connection.fetchval("SELECT count(*) FROM datasets WHERE name LIKE $1", f"{run_id}%")
        assert len(counted) > 8, f"the store's tables were not found: {sorted(counted)}"
        return {table: count for table, count in counted.items() if count}


def gated(gate: Path, **parts: Any) -> dict[str, Any]:
    """A run that waits in its baseline until a file exists."""
    x = {"value": 10, "change": "structured", "type": "integer", "min": 0, "max": 1000, "step": 10}
    return spec(
        configuration={"x": x, "gate": str(gate)},
        target={"kind": "python", "ref": "plugged:waits_for_a_file"},
        execution={"sample_timeout": "60s"},
        **parts,
    )


async def measuring(handle: Handle) -> None:
    async with asyncio.timeout(LONGEST):
        while (await handle.query("progress"))["phase"] != "measuring the baseline":
            await asyncio.sleep(0.02)
