"""How an evaluation ends when it does not end well, and how to finish what must not be interrupted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol, TypeVar

from temporalio.exceptions import ApplicationError

from workflows.model.spec.judgement import RaceDecision
from workflows.model.trial import Resumed, ShardResult

T = TypeVar("T")


class Evaluation(Protocol):
    """One kind of trial at work."""

    @property
    def experiment_id(self) -> str | None:
        """The external runner's, once it is known."""
        ...

    @property
    def looks(self) -> Sequence[RaceDecision]:
        """What was decided between the blocks of a trial that races."""
        ...

    async def run(self) -> list[ShardResult]:
        """Get every answer that is missing. When cancelled, commit what is there, and raise."""
        ...


class ScoringBroke(Exception):
    """A scorer failed on one shard; the others need not be paid for."""


class TrialEnded(Exception):
    """The trial is over, and not because everything was answered."""

    def __init__(self, ended: Literal["cancelled", "timeout", "error"], error: str) -> None:
        super().__init__(error)
        self.ended: Literal["cancelled", "timeout", "error"] = ended
        self.error = error


class GoesOn(Exception):
    """The history has grown so long that the trial continues as new."""

    def __init__(self, resumed: Resumed) -> None:
        super().__init__("the trial continues as new")
        self.resumed = resumed


def errors_of(cause: BaseException | None) -> dict[str, int]:
    """What a shard that failed for good says it met, by the class of the error."""
    details = cause.details if isinstance(cause, ApplicationError) else ()
    told = details[0].get("errors") if details and isinstance(details[0], dict) else None
    return told if isinstance(told, dict) else {}


def refuse_broken_scoring(result: ShardResult) -> ShardResult:
    """The result, unless a scorer failed."""
    if result.scoring_error is not None:
        raise ScoringBroke(result.scoring_error)
    return result


def is_being_cancelled() -> bool:
    """Whether whoever waits here was told to stop: what failed meanwhile is no failure of the trial."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


async def to_the_end(work: Awaitable[T]) -> T:
    """Await work that no cancellation must interrupt. For the time after one: it is not raised again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def uninterrupted(work: Awaitable[T]) -> T:
    """Await work that a cancellation must not interrupt; it is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await to_the_end(task)
        raise
