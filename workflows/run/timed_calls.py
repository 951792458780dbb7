"""Calls of the run itself that end with its time budget: for new values, for the step of an optimizer, for a stop policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ratchet.optimizer import StopReason
from workflows.model.failures import shorten
from workflows.policies import ActivityPolicy
from workflows.rules.decisions.stop_rules import time_is_over
from workflows.run.end.ended import RunEnded
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
        """Wait for the answer. Raises RunEnded where the time was over before it came; time that nobody served does not count.

        `may_end_later` is for our own computations, which take seconds: reports have some made after the end.
        """
        summary = shorten(summary, LONGEST_SUMMARY)
        calling = workflow.start_activity_method(activity, request, task_queue=self._task_queue, summary=summary, **policy)
        try:
            while not (may_end_later or calling.done()):
                await self._until_done_or_over(calling, summary)
        except BaseException:  # nobody waits any more
            calling.cancel()
            with suppress(ActivityError, asyncio.CancelledError):
                await calling
            raise
        return await calling

    async def _until_done_or_over(self, calling: asyncio.Task[Any], doing: str) -> None:
        """Wait until the call is over, or until more or less time is left than was known."""
        deadline = self._state.deadline
        left = None if deadline is None else deadline - workflow.now()
        if left is not None and left <= timedelta(0):
            await self._ask_whether_time_is_over()
            if self._state.is_out_of_time(workflow.now()):
                told = f"{time_is_over(self._state.limits.budget)}, in {doing}"
                raise RunEnded(StopReason.TIME_BUDGET, told, by="proposer")
            return
        with suppress(TimeoutError):
            await workflow.wait_condition(lambda: calling.done() or self._state.deadline != deadline, timeout=left)
