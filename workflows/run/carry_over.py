"""What a run takes along when it continues as new: bounded, because what grows with the run is read back from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

from workflows.model.run.contract import RunState
from workflows.model.spec.request import OptimizationRequest
from workflows.run.spending import Accounts
from workflows.run.state import RunBook

Kept = TypeVar("Kept", bound=BaseModel)

CARRIED_BYTES = 56 * 1024
"""Of trials, rounds and rejections each, so much JSON is carried into the next execution, the newest first."""


def carried(book: RunBook) -> RunState:
    """What the next execution needs; the history itself is read back from the store."""
    assert book.prepared and book.baseline and book.best
    return RunState(
        prepared=book.prepared,
        started_at=book.started_at,
        paused_for=book.paused_for,
        unserved=book.unserved,
        round=book.round,
        baseline=book.baseline,
        best=book.best,
        last=None if book.last and book.last.candidate_id == book.best.candidate_id else book.last,
        optimizer=book.optimizer_state,
        counts=book.counts,
        spend=book.accounts.spend,
        lost=book.accounts.lost,
        reused=book.accounts.reused,
        consecutive_failures=book.consecutive_failures,
        barren_rounds=book.barren_rounds,
        lost_rounds=book.lost_rounds,
        last_failure=book.last_failure,
        recent_trials=_newest_within(CARRIED_BYTES, book.recent_trials),
        recent_rejections=_newest_within(CARRIED_BYTES, book.recent_rejections),
        recent_rounds=_newest_within(CARRIED_BYTES, book.recent_rounds),
        recent_parts=_newest_within(CARRIED_BYTES, book.recent_parts),
        open_round=book.open_round,
        front=book.front,
        noise=book.noise,
        plan=book.plan,
        adjusted=book.adjusted,
        waiting=tuple(book.waiting),
        paused=book.paused,
        stop_requested=book.stop_requested,
        executions=book.executions,
    )


def request_in_force(book: RunBook) -> OptimizationRequest:
    """The spec with every adjustment applied, for the next execution."""
    execution = book.request.execution.model_copy(
        update={
            "concurrent_trials": book.concurrent_trials,
            "concurrent_samples": book.concurrent_samples,
            "priority": book.priority,
            "rate_limits": book.rate_limits,
        }
    )
    return book.request.model_copy(update={"stop": book.limits.stop, "budget": book.limits.budget, "execution": execution})


def pick_up(book: RunBook, state: RunState) -> None:
    """Go on from what an earlier execution carried over, before anybody tells the run anything new."""
    book.prepared, book.baseline, book.best, book.last = state.prepared, state.baseline, state.best, state.last
    book.started_at, book.paused_for, book.unserved = state.started_at, state.paused_for, state.unserved
    book.round, book.optimizer_state = state.round, state.optimizer
    book.counts, book.accounts = state.counts, Accounts.carried(state)
    book.consecutive_failures, book.barren_rounds = state.consecutive_failures, state.barren_rounds
    book.lost_rounds, book.last_failure = state.lost_rounds, state.last_failure
    book.recent_trials, book.recent_rejections = list(state.recent_trials), list(state.recent_rejections)
    book.recent_rounds, book.waiting = list(state.recent_rounds), list(state.waiting)
    book.recent_parts, book.open_round = list(state.recent_parts), state.open_round
    book.front, book.noise, book.plan = state.front, state.noise, state.plan
    book.adjusted, book.paused, book.stop_requested = state.adjusted, state.paused, state.stop_requested
    book.executions = state.executions + 1
    book.status, book.phase = "running", "going on"


def _newest_within(limit: int, parts: Sequence[Kept]) -> tuple[Kept, ...]:
    """The newest parts whose JSON fits; the very newest always."""
    kept: list[Kept] = []
    size = 0
    for part in reversed(parts):
        size += len(part.model_dump_json())
        if kept and size > limit:
            break
        kept.append(part)
    return tuple(reversed(kept))
