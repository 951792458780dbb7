"""OwnActivityWorkflow: calls an activity of the user's on behalf of an activity of ours, which cannot do it by itself."""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from workflows.model.activities.own_activity_calls import OwnActivityCall
    from workflows.policies import some_attempts


@workflow.defn
class OwnActivityWorkflow:
    """One call. What came back is handed on as it is: whoever asked reads it, as JSON of a stranger."""

    @workflow.run
    async def run(self, call: OwnActivityCall) -> RawValue:
        returned: RawValue = await workflow.execute_activity(
            call.activity,
            call.argument,
            result_type=RawValue,
            task_queue=call.task_queue,
            start_to_close_timeout=call.timeout,
            schedule_to_start_timeout=call.patience,
            heartbeat_timeout=call.heartbeat,
            retry_policy=some_attempts(call.attempts),
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
        )
        return returned
