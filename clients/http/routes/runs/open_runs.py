"""Open runs as Temporal knows them: what each waits for, and those that the store does not know yet.

A run is in the store once it was prepared. Until then, which without a worker may be long, only Temporal knows of it; the list
shows it all the same, by what its input says, which is as hostile as any other text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from clients.reports.headline import NOT_MEASURED
from clients.runs.lookup import WORKFLOW
from clients.runs.service.servers import Servers
from clients.runs.views.waits import pollers_of, queues_waited_for
from clients.wire import ListedOptimization
from ratchet._text.shortening import shorten
from store.read.reader import StoreReader
from workflows.model.run.rounds import Counts, Spend

log = structlog.get_logger("http.open_runs")

LOOK_EVERY: Final = 2.0
"""Seconds, however many people look at the list."""
LOOKING_TAKES_AT_MOST: Final = 2.0
MOST_OPEN: Final = 200
MOST_DESCRIBED: Final = 50
"""Of the open runs, the newest, that are asked what they wait for."""
LONGEST_WORD: Final = 200


@dataclass(frozen=True)
class OpenRun:
    """A run that is not over."""

    run_id: str
    started_at: datetime
    waits_for: tuple[str, ...]
    """Task queues that it waits on and that nobody serves."""
    in_store: bool
    head: Mapping[str, str] = field(default_factory=dict)
    """Of one that is not in the store: what its input says of itself."""

    def matches(self, status: str | None, search: str | None) -> bool:
        """Whether the list's filters let one through that the store does not know."""
        words = " ".join((self.run_id, self.head.get("name", ""), self.head.get("use_case", "")))
        return status in (None, "initialized") and (search is None or search.lower() in words.lower())


@dataclass
class OpenRuns:
    """The open runs, looked for once in a while and only when somebody asks."""

    _found: tuple[OpenRun, ...] = ()
    _looked_at: float = -LOOK_EVERY
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _heads: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By execution."""
    _accepted: dict[str, None] = field(default_factory=dict)
    """Runs that were started here, until Temporal's search, which lags behind, finds them."""

    def add(self, run_id: str) -> None:
        """A run was started: whoever looks next sees it."""
        self._accepted[run_id] = None
        self._looked_at = -LOOK_EVERY

    async def now(self, servers: Servers, reader: StoreReader) -> tuple[OpenRun, ...]:
        """As they stand. Temporal being away keeps nobody from looking at what is stored."""
        async with self._looking:
            if time.monotonic() - self._looked_at >= LOOK_EVERY:
                try:
                    self._found = await asyncio.wait_for(self._look(servers, reader), LOOKING_TAKES_AT_MOST)
                except (TimeoutError, RPCError) as error:
                    log.info("open runs cannot be looked at", error=repr(error))
                    self._found = ()
                self._looked_at = time.monotonic()
            return self._found

    async def _look(self, servers: Servers, reader: StoreReader) -> tuple[OpenRun, ...]:
        query = f"WorkflowType='{WORKFLOW}' AND ExecutionStatus='Running'"
        listed = [execution async for execution in servers.client.list_workflows(query, limit=MOST_OPEN)]
        lagging = self._accepted.keys() - {execution.id for execution in listed}
        ids = [*lagging, *(execution.id for execution in listed)]
        stored = await reader.runs.known_among(ids)
        pollers = pollers_of(servers)
        heads: dict[str, Mapping[str, str]] = {}
        found: list[OpenRun] = []
        for run_id in sorted(ids, key=lambda one: one in stored)[:MOST_DESCRIBED]:
            described = await _described(servers, run_id)
            if described is None or run_id in stored or run_id not in lagging:
                self._accepted.pop(run_id, None)
            if described is None:
                continue
            waits = await queues_waited_for(servers, described, pollers)
            in_store = run_id in stored
            if not in_store:
                known = self._heads.get(described.run_id)
                heads[described.run_id] = known if known is not None else head_of(await input_of(servers, described))
            head = heads.get(described.run_id, {})
            found.append(OpenRun(run_id, described.start_time.astimezone(UTC), waits, in_store, head))
        self._heads = heads
        return tuple(found)


async def _described(servers: Servers, run_id: str) -> WorkflowExecutionDescription | None:
    """As it is now: what Temporal searches lags behind."""
    described = await servers.client.get_workflow_handle(run_id).describe()
    return described if described.status == WorkflowExecutionStatus.RUNNING else None


async def input_of(servers: Servers, execution: WorkflowExecutionDescription) -> Mapping[str, Any]:
    """What a run was started with, as it was sent: as hostile as any other text."""
    handle = servers.client.get_workflow_handle(execution.id, run_id=execution.run_id)
    async for event in handle.fetch_history_events(page_size=1):
        try:
            given = await servers.client.data_converter.decode(event.workflow_execution_started_event_attributes.input.payloads)
        except Exception:  # whatever somebody sent there
            return {}
        return given[0] if given and isinstance(given[0], dict) else {}
    return {}


def head_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """The few words of a run's input that a list shows."""
    return dict(_words(spec))


def _words(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field_, within in (
        ("name", None),
        ("use_case", None),
        ("experiment", None),
        ("optimizer", "name"),
        ("objective", "metric"),
    ):
        value = spec.get(field_)
        value = value.get(within) if isinstance(value, dict) and within is not None else value
        if isinstance(value, str):
            yield field_, shorten(value, LONGEST_WORD)


def waiting_of(run: OpenRun) -> ListedOptimization:
    """A run of the list that the store does not know yet."""
    said = run.head
    return ListedOptimization(
        optimization_id=run.run_id,
        name=said.get("name") or run.run_id,
        use_case=said.get("use_case", ""),
        experiment=said.get("experiment", ""),
        status="initialized",
        stop_reason=None,
        message="",
        optimizer=said.get("optimizer", ""),
        objective_name=said.get("objective", ""),
        direction="maximize",
        round=0,
        counts=Counts(),
        spend=Spend(),
        baseline_candidate_id=None,
        baseline_score=None,
        best_candidate_id=None,
        best_score=None,
        headline=NOT_MEASURED,
        search_verdict=None,
        started_at=run.started_at,
        updated_at=run.started_at,
        finished_at=None,
        max_rounds=0,
        budget={},
        confirmation=None,
        stood_still_seconds=0,
        waits_for=run.waits_for,
    )
