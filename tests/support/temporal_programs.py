"""Workflows of programs that use Ratchet."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from ratchet.temporal import TASK_QUEUE, Optimization, Pending, ask_run, steer_run


@workflow.defn
class Refused:
    """Asks a run for what it refuses, and one that does not exist for anything."""

    @workflow.run
    async def run(self, spec: dict[str, Any]) -> dict[str, str]:
        run_id = f"{workflow.info().workflow_id}-run"
        child = await workflow.start_child_workflow(Optimization.run, spec, id=run_id, task_queue=TASK_QUEUE)
        told: dict[str, str] = {}
        try:
            await steer_run(run_id, Optimization.propose, Pending(configuration={"y": 1}))
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                told = {"type": str(error.cause.type), "message": error.cause.message}
        try:
            await ask_run("nobody-knows-it", Optimization.progress)
        except ActivityError as error:
            told["unknown"] = str(error.cause)
        await child.signal(Optimization.stop_early, "that was all")
        await child
        return told


@workflow.defn
class AsksWithoutThePlugin:
    """Starts a run, and reads its result."""

    @workflow.run
    async def run(self, spec: dict[str, Any]) -> dict[str, Any]:
        child = f"{workflow.info().workflow_id}-run"
        result = await workflow.execute_child_workflow(Optimization.run, spec, id=child, task_queue=TASK_QUEUE)
        return dict(result.best_configuration)
