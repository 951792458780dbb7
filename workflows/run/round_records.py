"""What the store is told of rounds: from the run's books, once they are decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import JsonValue

from ratchet.optimizer import StopReason, TrialFacts
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.rounds import PROPOSAL_FAILURE, RoundRecord, RunStatus
from workflows.run.state import NEWEST, RunState


def step_record(state: RunState, rejections: Sequence[Rejection], decided_at: datetime) -> RoundRecord:
    """What the store is told of a step that does not decide its round."""
    return RoundRecord(
        run_id=state.run_id,
        round=state.round,
        status=state.status,
        rejections=tuple(rejections),
        counts=state.counts,
        spend=state.spending.spend,
        decided_at=decided_at,
        open=True,
    )


def round_record(
    state: RunState,
    candidates: Sequence[Candidate],
    rejections: Sequence[Rejection],
    facts: Sequence[TrialFacts],
    decided_at: datetime,
) -> RoundRecord:
    """What the store is told of the round that was just booked."""
    scored = [trial for trial in facts if trial.score is not None]
    sign = 1 if state.request.objective.direction == "maximize" else -1
    winner = max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)
    record = RoundRecord(
        run_id=state.run_id,
        round=state.round,
        status=state.status,
        candidate_ids=tuple(candidate.candidate_id for candidate in candidates if candidate.part is None),
        rejections=tuple(rejections),
        best_score=winner.score if winner else None,
        best_candidate_id=winner.candidate_id if winner else None,
        best_so_far=state.best.score if state.best else None,
        best_so_far_id=state.best.candidate_id if state.best else None,
        new_best=state.best is not None and state.best.round == state.round,
        decisions=tuple(state.decisions),
        pareto_front=state.front,
        counts=state.counts,
        spend=state.spending.spend,
        lost=state.spending.lost,
        decided_at=decided_at,
        paused_for=state.time.paused_for,
        limits=state.limits_if_adjusted,
        extra=_extra(state, candidates),
    )
    state.recent_rounds = [*state.recent_rounds, record.model_copy(update={"rejections": ()})][-NEWEST:]
    return record


def _extra(state: RunState, candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    """What the optimizer notes of a round, or why it had nothing to propose."""
    notes = dict(state.optimizer_state.notes) if candidates or state.lost_why is None else {}
    return notes if state.lost_why is None else {**notes, PROPOSAL_FAILURE: state.lost_why}


def last_round(state: RunState, reason: StopReason, status: RunStatus) -> RoundRecord | None:
    """The last round once more, now with the reason why it was the last."""
    if not state.recent_rounds:
        return None
    update = {"stop_reason": reason, "stopped": True, "status": status, "new_best": False}
    update |= {"spend": state.spending.spend, "lost": state.spending.lost}
    state.recent_rounds[-1] = state.recent_rounds[-1].model_copy(update=update)
    return state.recent_rounds[-1]
