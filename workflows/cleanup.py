"""CleanupWorkflow: removes what ended, terminated and vanished runs left, and nothing that anything refers to."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows.contracts import Cleanup
    from workflows.model.activities.cleanup import CleanupInput, CleanupResult
    from workflows.policies import CLEANUP


@workflow.defn
class CleanupWorkflow:
    """One round. A schedule starts it every hour."""

    @workflow.run
    async def run(self, cleanup: CleanupInput) -> CleanupResult:
        return await workflow.execute_activity_method(
            Cleanup.clean_up, cleanup, summary="remove what nothing refers to", **CLEANUP
        )
