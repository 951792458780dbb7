"""Temporal's own record of a run, replayed with the workflow code as it is now, and held against the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from clients.replay.differences import ReplayDifference, differences
from clients.temporal import ratchet_plugin
from workflows.model.run.run_result import OptimizationResult
from workflows.optimization import OptimizationWorkflow
from workflows.trial import TrialWorkflow

UNASKABLE = frozenset("'\\")
"""What a query's text cannot hold; no run that was started by Ratchet has it in its id."""


@dataclass(slots=True)
class Replayed:
    """What became of the histories."""

    executions: int = 0
    """Of the run itself."""
    trials: int = 0
    failures: list[str] = field(default_factory=list)
    """Histories that the code does not go along with any more, and why."""
    differences: list[ReplayDifference] = field(default_factory=list)
    """Where the result in Temporal is not the one in the store."""
    missing: str | None = None
    """Why there was nothing to replay."""


async def replay_histories(client: Client, run_id: str, stored: OptimizationResult | None) -> Replayed:
    """Every execution of a run and of its trials."""
    found = Replayed()
    if UNASKABLE & set(run_id):
        found.missing = "the run's id has characters that Temporal cannot be asked for"
        return found
    replayer = Replayer(workflows=[OptimizationWorkflow, TrialWorkflow], plugins=[ratchet_plugin()])
    async for kind, workflow_id, history in _histories(client, run_id, found):
        replayed = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        if kind == "OptimizationWorkflow":
            found.executions += 1
        else:
            found.trials += 1
        if replayed.replay_failure is not None:
            found.failures.append(f"{workflow_id} ({history.run_id}): {replayed.replay_failure}")
    if found.executions:
        found.differences += await _result_differs(client, run_id, stored)
    elif found.missing is None:
        found.missing = "Temporal has no history of it any more: its retention is over"
    return found


async def _histories(client: Client, run_id: str, found: Replayed) -> AsyncIterator[tuple[str, str, WorkflowHistory]]:
    queries = (
        f"WorkflowType = 'OptimizationWorkflow' AND WorkflowId = '{run_id}'",
        f"WorkflowType = 'TrialWorkflow' AND WorkflowId STARTS_WITH '{run_id}/'",
    )
    for query in queries:
        try:
            async for execution in client.list_workflows(query):
                history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
                yield execution.workflow_type, execution.id, history
        except RPCError as error:
            found.missing = f"Temporal does not list its histories: {error.message}"
            return


async def _result_differs(client: Client, run_id: str, stored: OptimizationResult | None) -> list[ReplayDifference]:
    """What the workflow answered is what the store holds."""
    handle = client.get_workflow_handle(run_id)
    try:
        description = await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return []
        raise
    if description.status != WorkflowExecutionStatus.COMPLETED or stored is None:
        return []
    answered: Any = await client.get_workflow_handle(run_id, result_type=OptimizationResult).result()
    return [*differences(stored.model_dump(mode="json"), answered.model_dump(mode="json"), "result")]
