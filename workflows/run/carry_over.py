"""What a run takes along when it continues as new: bounded, because what grows with the run is read back from the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

from workflows.model.run.contract import CarriedState
from workflows.model.spec.request import OptimizationRequest
from workflows.run.run_time import RunTime
from workflows.run.spending import Spending
from workflows.run.state import RunState

Kept = TypeVar("Kept", bound=BaseModel)

CARRIED_BYTES = 56 * 1024
"""Of trials, rounds and rejections each, so much JSON is carried into the next execution, the newest first."""


def carried(state: RunState) -> CarriedState:
    """What the next execution needs; the history itself is read back from the store."""
    assert state.prepared and state.baseline and state.best
    return CarriedState(
        prepared=state.prepared,
        started_at=state.time.started_at,
        paused_for=state.time.paused_for,
        unserved=state.time.unserved,
        opened_in=state.time.opened_in,
        round=state.round,
        baseline=state.baseline,
        best=state.best,
        last=None if state.last and state.last.candidate_id == state.best.candidate_id else state.last,
        optimizer=state.optimizer_state,
        counts=state.counts,
        spend=state.spending.spend,
        lost=state.spending.lost,
        reused=state.spending.reused,
        consecutive_failures=state.consecutive_failures,
        rounds_without_admission=state.rounds_without_admission,
        rounds_without_proposal=state.rounds_without_proposal,
        last_failure=state.last_failure,
        recent_trials=_newest_within(CARRIED_BYTES, state.recent_trials),
        recent_rejections=_newest_within(CARRIED_BYTES, state.recent_rejections),
        recent_rounds=_newest_within(CARRIED_BYTES, state.recent_rounds),
        recent_parts=_newest_within(CARRIED_BYTES, state.recent_parts),
        open_round=state.open_round,
        front=state.front,
        noise=state.noise,
        plan=state.plan,
        first_look=state.first_look,
        adjusted=state.adjusted,
        waiting=tuple(state.waiting),
        paused=state.paused,
        stop_requested=state.stop_requested,
        executions=state.executions,
    )


def request_in_force(state: RunState) -> OptimizationRequest:
    """The spec with every adjustment applied, for the next execution."""
    execution = state.request.execution.model_copy(
        update={
            "concurrent_trials": state.concurrent_trials,
            "concurrent_samples": state.concurrent_samples,
            "priority": state.priority,
            "rate_limits": state.rate_limits,
        }
    )
    return state.request.model_copy(update={"stop": state.limits.stop, "budget": state.limits.budget, "execution": execution})


def pick_up(state: RunState, saved: CarriedState) -> None:
    """Go on from what an earlier execution carried over, before anybody tells the run anything new."""
    state.prepared, state.baseline, state.best, state.last = saved.prepared, saved.baseline, saved.best, saved.last
    state.time = RunTime(saved.started_at, saved.paused_for, saved.unserved, saved.opened_in)
    state.round, state.optimizer_state = saved.round, saved.optimizer
    state.counts, state.spending = saved.counts, Spending.carried(saved)
    state.consecutive_failures, state.rounds_without_admission = saved.consecutive_failures, saved.rounds_without_admission
    state.rounds_without_proposal, state.last_failure = saved.rounds_without_proposal, saved.last_failure
    state.recent_trials, state.recent_rejections = list(saved.recent_trials), list(saved.recent_rejections)
    state.recent_rounds, state.waiting = list(saved.recent_rounds), list(saved.waiting)
    state.recent_parts, state.open_round = list(saved.recent_parts), saved.open_round
    state.front, state.noise, state.plan, state.first_look = saved.front, saved.noise, saved.plan, saved.first_look
    state.adjusted, state.paused, state.stop_requested = saved.adjusted, saved.paused, saved.stop_requested
    state.executions = saved.executions + 1
    state.status, state.phase = "running", "going on"


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
