"""JanitorWorkflow: removes what ended, terminated and vanished runs left, and nothing that anything refers to."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.contracts import Sweeping
    from workflows.model.activities.cleanup import SweepInput, Swept
    from workflows.policies import SWEEP


@workflow.defn
class JanitorWorkflow:
    """One round. A schedule starts it every hour."""

    @workflow.run
    async def run(self, sweep: SweepInput) -> Swept:
        return await workflow.execute_activity_method(Sweeping.sweep, sweep, summary="remove what nothing refers to", **SWEEP)
