"""What the run's workflow writes to the store about its own decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, JsonValue

from ratchet._frozen import Payload
from ratchet.optimizer import StopReason
from workflows.model.run.candidates import Rejection
from workflows.model.run.decisions import Decision, FrontMember
from workflows.model.spec.durations import Elapsed
from workflows.model.spec.execution import Budget, Stop

RunStatus = Literal["initialized", "running", "paused", "completed", "failed", "cancelled", "terminated"]

PROPOSAL_FAILURE = "proposal_failure"
"""In `extra`: why the round has no proposals."""


class Counts(Payload):
    """How many proposals there were and what became of them."""

    proposed: int = 0
    running: int = 0
    completed: int = 0
    failed: int = 0
    rejected: int = 0
    stopped: int = 0


class Spend(Payload):
    """What the run has paid for so far, proposals included."""

    samples: int = 0
    trials: int = 0
    tokens: int = 0
    cost: float = 0.0


class Unanswered(Payload):
    """Calls without an answer that may have been paid for: under a budget at the most that they can have taken, without one
    those that were in flight at the last heartbeat of a lost worker."""

    samples: int = 0
    tokens: int = 0
    cost: float = 0.0
    exceeded: int = 0
    """Calls, answered ones, that took more than was set aside for them."""


class LimitsInForce(Payload):
    """Stop rules and budget after people changed them."""

    stop: Stop
    budget: Budget


class RoundRecord(Payload):
    """A decided round. Committing it twice changes nothing.

    Records wait in the workflow and travel with the next write to the store, so that a round costs no history event of its
    own; the outbox is flushed before anything that may take long.
    """

    run_id: str
    round: int
    status: RunStatus = "running"
    candidate_ids: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    best_score: float | None = None
    """The best score of this round."""
    best_candidate_id: str | None = None
    """The best candidate of this round."""
    best_so_far: float | None = None
    best_so_far_id: str | None = None
    new_best: bool = False
    """Whether this round changed the best candidate of the run."""
    stop_reason: StopReason | None = None
    stopped: bool = False
    counts: Counts = Field(default_factory=Counts)
    spend: Spend = Field(default_factory=Spend)
    lost: Spend = Field(default_factory=Spend)
    """What calls without an answer can have taken so far; it counts against the budget, too."""
    decided_at: datetime
    paused_for: Elapsed = timedelta(0)
    """How long the run had stood still by then, paused or served by nobody: that counts against no budget."""
    limits: LimitsInForce | None = None
    """What the stop rules of this round were measured against, once that is no longer what the spec says."""
    open: bool = False
    """The round after this one goes on: only its rejections so far, and where the run stands, are written."""
    decisions: tuple[Decision, ...] = ()
    """What became of each candidate, in the order of their proposals, and why."""
    pareto_front: tuple[FrontMember, ...] = ()
    """Where there are several objectives: the candidates so far that no other one beats in all of them."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    """What the optimizer adds: Pareto front, selection, state of the population."""
