"""Queries and updates of a run from within a workflow.

Temporal lets a workflow start and signal others, and neither query nor update them: an activity of the program's own worker
does it. `RatchetPlugin` registers that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar, get_type_hints

from pydantic import BaseModel, JsonValue
from temporalio import activity, workflow
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from clients.programs.run_interface import Optimization
from ratchet._frozen import Payload
from workflows.model.failures import INVALID_REQUEST, shorten
from workflows.model.run.query_answers import UpdateAnswer

Answer = TypeVar("Answer")

QUERY: Final = "ratchet_query_run"
UPDATE: Final = "ratchet_update_run"
"""What a program's worker serves them as; its own activities have other names."""

ONE_ATTEMPT: Final = timedelta(seconds=20)
ALL_ATTEMPTS: Final = timedelta(minutes=5)
"""A run whose worker is away does not answer; it is asked again for so long."""


class RunQuery(Payload):
    """A query of a run."""

    run_id: str
    query: str


class RunUpdate(Payload):
    """An update of a run. However often it is tried, it takes effect once: that is what its own id is for."""

    run_id: str
    update: str
    update_id: str
    arguments: tuple[JsonValue, ...] = ()


async def ask_run(run_id: str, query: Callable[[Optimization], Answer]) -> Answer:
    """Query a run from a workflow: `await ask_run(run_id, Optimization.progress)`."""
    asked = RunQuery(run_id=run_id, query=query.__name__)
    answer: Answer = await _execute(QUERY, asked, get_type_hints(query)["return"])
    return answer


async def steer_run(run_id: str, update: Callable[..., Any], *arguments: BaseModel | dict[str, Any]) -> UpdateAnswer:
    """Update a run from a workflow: `await steer_run(run_id, Optimization.adjust, Adjustment(max_rounds=40))`."""
    given = tuple(
        part.model_dump(mode="json", exclude_unset=True) if isinstance(part, BaseModel) else part for part in arguments
    )
    update_id = str(workflow.uuid4())
    asked = RunUpdate(run_id=run_id, update=update.__name__, update_id=update_id, arguments=given)
    answer: UpdateAnswer = await _execute(UPDATE, asked, UpdateAnswer)
    return answer


async def _execute(requested: str, asked: RunQuery | RunUpdate, answer: type[Any]) -> Any:
    return await workflow.execute_activity(
        requested,
        asked,
        result_type=answer,
        start_to_close_timeout=ONE_ATTEMPT,
        schedule_to_close_timeout=ALL_ATTEMPTS,
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=10), non_retryable_error_types=[INVALID_REQUEST]),
    )


@activity.defn(name=QUERY)
async def query_run(asked: RunQuery) -> dict[str, Any]:
    """Query a run on behalf of a workflow."""
    with _refusals():
        answer: dict[str, Any] = await activity.client().get_workflow_handle(asked.run_id).query(asked.query, result_type=dict)
    return answer


@activity.defn(name=UPDATE)
async def update_run(asked: RunUpdate) -> dict[str, Any]:
    """Update a run on behalf of a workflow."""
    handle = activity.client().get_workflow_handle(asked.run_id)
    with _refusals():
        answer: dict[str, Any] = await handle.execute_update(
            asked.update, args=list(asked.arguments), id=asked.update_id, result_type=dict
        )
    return answer


@contextmanager
def _refusals() -> Iterator[None]:
    """What asking again would not change fails at once, in the run's own words."""
    try:
        yield
    except WorkflowUpdateFailedError as refused:
        raise _refused(str(refused.cause)) from None
    except WorkflowQueryFailedError as refused:
        raise _refused(str(refused)) from None
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            raise _refused(error.message) from None
        raise


def _refused(why: str) -> ApplicationError:
    return ApplicationError(shorten(why), type=INVALID_REQUEST, non_retryable=True)


REQUESTS: Final = (query_run, update_run)
"""What a program's worker serves for its workflows."""
