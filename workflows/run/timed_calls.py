"""Calls of the run itself that end with its time budget: for new values, for the step of an optimizer, for a stop policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, RetryState, TimeoutError, TimeoutType

from ratchet.optimizer import StopReason
from workflows.model.failures import shorten
from workflows.policies import ActivityPolicy
from workflows.rules.decisions.stop_rules import time_is_over
from workflows.run.ended import RunEnded
from workflows.run.state import RunState

LONGEST_SUMMARY = 100
"""Characters. Temporal takes 400 bytes; factors may have many and long names."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class TimedCalls:
    """Activities of the evaluation workers, cut off where the time budget is over."""

    def __init__(self, state: RunState, task_queue: str, ask_whether_time_is_over: Callable[[], Awaitable[None]]) -> None:
        self._state = state
        self._task_queue = task_queue
        self._ask_whether_time_is_over = ask_whether_time_is_over

    async def call(
        self,
        activity: Callable[[Any, Request], Awaitable[Answer]],
        request: Request,
        *,
        summary: str,
        policy: ActivityPolicy,
        may_end_later: bool = False,
    ) -> Answer:
        """Wait for the answer. Raises RunEnded where the time was over before it came.

        Time that nobody served does not count, and `adjust` may give more: then the same is asked again. `may_end_later` is for
        our own computations, which take seconds: reports have some made after the end.
        """
        summary = shorten(summary, LONGEST_SUMMARY)
        while True:
            left = None if may_end_later else await self._time_left(summary)
            bounded = policy if left is None else ActivityPolicy(**{**policy, "schedule_to_close_timeout": left})
            try:
                return await workflow.execute_activity_method(
                    activity, request, task_queue=self._task_queue, summary=summary, **bounded
                )
            except ActivityError as error:
                if left is None or not _has_run_out_of_time(error):
                    raise
            rest = self._until_the_deadline()
            if rest is not None and rest > timedelta(0):  # it failed, and no other attempt fits into what is left
                await asyncio.sleep(rest.total_seconds())

    def _until_the_deadline(self) -> timedelta | None:
        deadline = self._state.deadline
        return None if deadline is None else deadline - workflow.now()

    async def _time_left(self, doing: str) -> timedelta | None:
        left = self._until_the_deadline()
        if left is None or left > timedelta(0):
            return left
        await self._ask_whether_time_is_over()
        if self._state.is_out_of_time(workflow.now()):
            told = f"{time_is_over(self._state.limits.budget)}, in {doing}"
            raise RunEnded(StopReason.TIME_BUDGET, told, by="proposer")
        return self._until_the_deadline()


def _has_run_out_of_time(error: ActivityError) -> bool:
    cause = error.cause
    return error.retry_state is RetryState.TIMEOUT or (
        isinstance(cause, TimeoutError) and cause.type is TimeoutType.SCHEDULE_TO_CLOSE
    )
