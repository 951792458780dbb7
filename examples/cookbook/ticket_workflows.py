"""What the program decides: label a ticket, and now and then find a better prompt for that."""

from datetime import timedelta

from temporalio import workflow
from temporalio.workflow import ParentClosePolicy

from ratchet.temporal import TASK_QUEUE, Optimization

with workflow.unsafe.imports_passed_through():
    from ticket_activities import Ticket, TicketActivities


@workflow.defn
class LabelTicket:
    """One ticket."""

    @workflow.run
    async def run(self, ticket: Ticket) -> str:
        return await workflow.execute_activity_method(
            TicketActivities.label_ticket, ticket, start_to_close_timeout=timedelta(seconds=30)
        )


@workflow.defn
class ImprovePrompt:
    """One run over the activity that answers tickets. It may take hours; this workflow may be asked and cancelled meanwhile."""

    @workflow.run
    async def run(self, spec: dict) -> dict:
        result = await workflow.execute_child_workflow(
            Optimization.run,
            spec,
            id=f"{workflow.info().workflow_id}/run",
            task_queue=TASK_QUEUE,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        )
        # An optimizer that found nothing leaves the prompt as it was: its best configuration is the one it began with.
        return {"prompt": result.best_configuration["prompt"], "before": result.baseline_score, "after": result.best_score}
