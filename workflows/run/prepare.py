"""How a run opens: everything that can be checked is checked before anything is paid for."""

from __future__ import annotations

import asyncio
from datetime import datetime

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from workflows.contracts import Bookkeeping, Evaluating, Ingesting
from workflows.model.run.contract import (
    IngestedDataset,
    IngestInput,
    Inspected,
    InspectInput,
    NamedQueue,
    Prepared,
    PrepareInput,
)
from workflows.model.spec.request import OptimizationRequest
from workflows.policies import INSPECT, LOCAL_STORE, PREPARE


async def prepared(run_id: str, request: OptimizationRequest, evaluation_task_queue: str, started_at: datetime) -> Prepared:
    """Check the spec, ingest the dataset, open the run in the store. A spec that is refused leaves nothing behind."""
    try:
        if request.execution.evaluation_task_queue is not None:  # before that queue is asked for anything
            await workflow.execute_local_activity_method(
                Bookkeeping.admit_evaluation_queue,
                NamedQueue(task_queue=request.execution.evaluation_task_queue),
                **LOCAL_STORE,
            )
        inspected = await _inspected(request, evaluation_task_queue)
        request = request.described(inspected.descriptions)
        ingested = await _ingested(request, evaluation_task_queue)
        preparing = workflow.execute_activity_method(
            Bookkeeping.prepare,
            PrepareInput(
                run_id=run_id, request=request, evaluators=inspected.evaluators, ingested=ingested, started_at=started_at
            ),
            summary="check the spec, ingest the dataset",
            **PREPARE,
        )
        # An activity that is waited for although it was cancelled may end well; only `gather` then still says so.
        [opened] = await asyncio.gather(preparing)
    except ActivityError as error:
        if is_cancelled_exception(error) or not isinstance(error.cause, ApplicationError):
            raise
        raise ApplicationError(error.cause.message, type=error.cause.type, non_retryable=True) from None
    return opened.model_copy(update={"descriptions": inspected.descriptions})


async def _inspected(request: OptimizationRequest, evaluation_task_queue: str) -> Inspected:
    references = request.plugin_references
    optimizer = request.optimizer
    if not references and not optimizer.packages:
        return Inspected(evaluators={})
    return await workflow.execute_activity_method(
        Evaluating.inspect_plugins,
        InspectInput(
            references=references,
            arguments=request.plugin_arguments,
            optimizer=optimizer.own_class,
            search=optimizer if optimizer.packages else None,
            describable=request.describable(),
        ),
        task_queue=evaluation_task_queue,
        summary="import plug-ins",
        **INSPECT,
    )


async def _ingested(request: OptimizationRequest, evaluation_task_queue: str) -> IngestedDataset | None:
    if request.dataset.ref is None:
        return None
    asking = workflow.execute_activity_method(
        Ingesting.ingest_dataset,
        IngestInput(ref=request.dataset.ref, name=request.dataset_name),
        task_queue=evaluation_task_queue,
        summary="ask a plug-in for the dataset",
        **PREPARE,
    )
    [ingested] = await asyncio.gather(asking)
    return ingested
