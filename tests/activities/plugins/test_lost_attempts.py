"""Errors end an activity after a few attempts and are named; outages end none; only deaths in the middle of the work count as
such."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from temporalio import activity, workflow
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest, RecordActivityTaskHeartbeatRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.plugins.lost_attempts import MOST_FAILURES, MOST_LOST, RECORD, AttemptLimits, attempts_before
from store.connection import StoreAway
from tests.support.engines import Engines
from workflows.model.failures import ATTEMPTS_EXHAUSTED, WORKER_LOST

AT_ONCE = RetryPolicy(initial_interval=timedelta(milliseconds=1), backoff_coefficient=1.0)


@workflow.defn(name="Asks")
class Asks:
    """Calls one activity, as often as it takes."""

    @workflow.run
    async def run(self, kind: str) -> Any:
        return await workflow.execute_activity(
            kind,
            start_to_close_timeout=timedelta(seconds=10),
            heartbeat_timeout=timedelta(seconds=2),
            retry_policy=AT_ONCE,
        )


class Server:
    """A task queue with one activity on it, and workers that take its tasks and do nothing."""

    def __init__(self, client: Client, queue: str) -> None:
        self.client, self.queue = client, queue

    async def start(self, kind: str) -> Any:
        return await self.client.start_workflow("Asks", kind, id=f"asks-{uuid.uuid4()}", task_queue=self.queue)

    async def swallow(self, *, begins: Sequence[int] = ()) -> None:
        """Take the next attempt and go away: in silence, or after saying that it has begun, with so many lost before."""
        taken = await self.client.workflow_service.poll_activity_task_queue(
            PollActivityTaskQueueRequest(namespace="default", task_queue=TaskQueue(name=self.queue), identity="stopped")
        )
        for lost in begins:
            record = {RECORD: {"begun": taken.attempt, "lost": lost}}
            details = await self.client.data_converter.encode([record])
            request = RecordActivityTaskHeartbeatRequest(namespace="default", task_token=taken.task_token)
            request.details.payloads.extend(details)
            await self.client.workflow_service.record_activity_task_heartbeat(request)

    @asynccontextmanager
    async def worker(self, name: str, body: Callable[[], Any]) -> AsyncIterator[None]:
        @activity.defn(name=name)
        async def served() -> Any:
            return body()

        async with Worker(
            self.client,
            task_queue=self.queue,
            activities=[served],
            interceptors=[AttemptLimits()],
            disable_eager_activity_execution=True,
        ):
            yield


@pytest.fixture
async def server(engines: Engines) -> AsyncIterator[Server]:
    queue = f"attempts-{uuid.uuid4()}"
    async with Worker(
        engines.client,
        task_queue=f"{queue}",
        workflows=[Asks],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield Server(engines.client, queue)


class Script:
    """Raises one error after the other, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answered"


async def _failure(handle: Any) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    error = failed.value.cause
    assert isinstance(error, ActivityError) and isinstance(error.cause, ApplicationError), error
    return error.cause


@pytest.mark.parametrize("kind", ["judge", "finish_run"])
async def test_what_raises_is_not_tried_for_ever_and_says_why(server: Server, kind: str) -> None:
    script = Script(*[OverflowError("intermediate overflow in fsum")] * 100)
    async with server.worker(kind, script):
        error = await _failure(await server.start(kind))
    assert error.type == ATTEMPTS_EXHAUSTED and script.calls == MOST_FAILURES
    assert error.message.endswith(f" failed {MOST_FAILURES} times: OverflowError: intermediate overflow in fsum")


async def _refused() -> BaseException:
    """What asyncpg raises where nobody listens."""
    with pytest.raises(ConnectionRefusedError) as refused:
        await asyncpg.connect("postgresql://ratchet@127.0.0.1:9/ratchet")
    return refused.value


@pytest.mark.parametrize("error", [TimeoutError("slow disk"), ConnectionRefusedError("their port"), OSError(28, "no space")])
async def test_an_error_of_somebodys_code_is_no_store_that_is_away(server: Server, error: OSError) -> None:
    script = Script(*[error] * 100)
    async with server.worker("prepare", script):
        told = await _failure(await server.start("prepare"))
    assert told.type == ATTEMPTS_EXHAUSTED and script.calls == MOST_FAILURES
    assert f"preparing the run failed {MOST_FAILURES} times: {type(error).__name__}" in told.message


async def test_a_store_that_is_away_is_no_failed_attempt(server: Server) -> None:
    outage: list[BaseException] = [*[StoreAway("no store")] * 2, *[await _refused() for _ in range(2)]]
    assert len(outage) >= MOST_FAILURES and 2 * len(outage) > MOST_LOST
    failures: list[BaseException] = [ValueError("once")] * (MOST_FAILURES - 1)
    script = Script(*outage, *failures, *outage)
    async with server.worker("judge", script):
        assert await (await server.start("judge")).result() == "answered"
    assert script.calls == 2 * len(outage) + MOST_FAILURES


async def test_an_error_of_a_kind_of_its_own_stays_what_it_is(server: Server) -> None:
    script = Script(*[ApplicationError("no idea", None, [12, 0.5], type="ProposerFailed") for _ in range(100)])
    async with server.worker("propose_values", script):
        error = await _failure(await server.start("propose_values"))
    assert (error.type, error.message, error.non_retryable) == ("ProposerFailed", "no idea", True)
    assert error.details[1] == [12, 0.5]
    assert script.calls == MOST_FAILURES


async def test_attempts_that_a_stopped_worker_swallowed_count_for_nothing(server: Server) -> None:
    handle = await server.start("judge")
    await server.swallow(begins=[0])
    for _ in range(3):
        await server.swallow()
    async with server.worker("judge", lambda: [attempts_before().lost, attempts_before().isolates, activity.info().attempt]):
        assert await handle.result() == [1, False, 5]


async def test_what_died_twice_with_its_worker_is_told_to_the_next_attempt(server: Server) -> None:
    handle = await server.start("judge")
    await server.swallow(begins=[0])
    await server.swallow(begins=[1])
    async with server.worker("judge", lambda: [attempts_before().lost, attempts_before().isolates]):
        assert await handle.result() == [2, True]


async def test_what_dies_with_every_worker_is_given_up(server: Server) -> None:
    handle = await server.start("prepare")
    await server.swallow(begins=[MOST_LOST - 1])
    async with server.worker("prepare", Script()):
        error = await _failure(handle)
    assert error.type == WORKER_LOST
    assert error.message.startswith(f"preparing the run lost its worker {MOST_LOST} times")
