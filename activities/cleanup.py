"""The one activity of the cleanup: temporary tags and overlays of runs that are over, and what a policy removes of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.releases.override_stores import Overrides
from activities.releasing import prompt_errors
from activities.shards.heartbeat import heartbeating
from ratchet.prompts import Change, OverrideStore, StaleBase, TagState
from store.connection import Database
from store.errors import store_errors
from store.write.repositories import Store
from store.write.retention.removals import Removals
from store.write.runs import RunStanding
from workflows.contracts import Cleanup
from workflows.model.activities.cleanup import CleanupInput, CleanupResult
from workflows.rules.retention_policy import RetentionPolicy, retention_plan

log = structlog.get_logger("cleanup")

SECONDS_OF_A_ROUND: Final = 20 * 60
"""So long a round removes at most; the next one goes on."""


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """How a run stands by its workflow."""

    running: bool
    closed_at: datetime | None = None


Executions = Callable[[Sequence[str]], Awaitable[Mapping[str, WorkflowRun]]]
"""Those of these runs that Temporal knows."""


class StoreCleanup(Cleanup):
    """Clears away what runs left in the store and in the override store."""

    def __init__(
        self,
        database: Database,
        overrides: Overrides,
        executions: Executions | None = None,
        *,
        retention: RetentionPolicy | None = None,
    ) -> None:
        self._store = Store(database)
        self._removals = Removals(database)
        self._retention = retention or RetentionPolicy()
        self._overrides = overrides
        self._executions = executions

    @activity.defn(name="clean_up")
    async def clean_up(self, cleanup: CleanupInput) -> CleanupResult:
        """Remove temporary tags and overlays that nothing needs any more, and what the policy asks for."""
        async with heartbeating():
            with store_errors(), prompt_errors():
                removed = await self.remove_unneeded(
                    cleanup.grace, datetime.now(UTC), self._executions or executions_of(activity.client())
                )
                until = time.monotonic() + SECONDS_OF_A_ROUND
                retained = await self.carry_out_retention(datetime.now(UTC), lambda: time.monotonic() < until)
                return removed.model_copy(update=retained)

    async def remove_unneeded(self, grace: timedelta, now: datetime, executions: Executions) -> CleanupResult:
        """One round at a given time."""
        store = await self._overrides.store()
        tags = 0
        for name in await store.names():
            for state in await store.list_tags(name):
                if state.temporary and await self._is_over(state, now - grace, executions):
                    tags += await _removed(store, state)
        return CleanupResult(tags=tags, overlays=await self._store.overlays.remove_unused(now - grace))

    async def carry_out_retention(self, now: datetime, goes_on: Callable[[], bool] = lambda: True) -> dict[str, int]:
        """Remove what the policy asks for at a given time, as long as it goes on: how many runs lost what, and what is left."""
        if not self._retention:
            return {}
        runs = await self._removals.sized_runs(goes_on)
        if runs is None:
            log.info("runs are still being measured; the next round goes on")
            return {}
        plan = retention_plan(self._retention, runs, now)
        done: Counter[str] = Counter()
        for due in plan.due:
            if goes_on() and await self._removals.carry_out(due, goes_on):
                done[due.removed] += 1
                log.info("removed by the policy", run_id=due.run_id, removed=due.removed, policy=due.policy, bytes=due.bytes)
            else:
                done["left"] += 1
        if plan.over_by:
            log.warning("the store is larger than the policy allows, and nothing more may be removed", bytes=plan.over_by)
        return dict(done)

    async def _is_over(self, state: TagState, before: datetime, executions: Executions) -> bool:
        """Whether every run that may need a tag was over before a time, and no release waits for what it holds."""
        if state.change.at >= before:
            return False
        if await self._store.release_log.awaited(state.name, state.config_hash):
            return False
        runs = {*await self._store.runs.with_configuration(state.tag), *([state.owner] if state.owner else [])}
        rows = await self._store.runs.standings(sorted(runs))
        known = await executions(sorted(runs))
        return all(_was_over(known.get(run), rows.get(run), before) for run in runs)


def _was_over(execution: WorkflowRun | None, row: RunStanding | None, before: datetime) -> bool:
    """By its workflow, which knows best; else by its row; a run of which nobody knows anything has vanished."""
    if execution is not None:
        return not execution.running and (execution.closed_at is None or execution.closed_at < before)
    return row is None or row.last_change < before


async def _removed(store: OverrideStore, state: TagState) -> int:
    """A tag that has moved since it was looked at is somebody's again, and stays."""
    with suppress(StaleBase):
        change = Change(action="sweep", by="ratchet", why=f"the runs that needed it are over (it was made for {state.owner})")
        await store.delete(state.name, tag=state.tag, expected=state.revision, change=change)
        return 1
    return 0


def executions_of(client: Client) -> Executions:
    """Runs as Temporal knows them."""

    async def found(run_ids: Sequence[str]) -> dict[str, WorkflowRun]:
        known = {}
        for run_id in run_ids:
            try:
                described = await client.get_workflow_handle(run_id).describe()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                continue
            running = described.status is WorkflowExecutionStatus.RUNNING
            known[run_id] = WorkflowRun(running, described.close_time)
        return known

    return found
