"""What the store is told of rounds: from the run's books, once they are decided."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import JsonValue

from ratchet.optimizer import StopReason, TrialFacts
from workflows.model.run.candidates import Candidate, Rejection
from workflows.model.run.rounds import PROPOSAL_FAILURE, RoundRecord, RunStatus
from workflows.run.state import NEWEST, RunBook


def step_record(book: RunBook, rejections: Sequence[Rejection], decided_at: datetime) -> RoundRecord:
    """What the store is told of a step that does not decide its round."""
    return RoundRecord(
        run_id=book.run_id,
        round=book.round,
        status=book.status,
        rejections=tuple(rejections),
        counts=book.counts,
        spend=book.accounts.spend,
        decided_at=decided_at,
        open=True,
    )


def round_record(
    book: RunBook,
    candidates: Sequence[Candidate],
    rejections: Sequence[Rejection],
    facts: Sequence[TrialFacts],
    decided_at: datetime,
) -> RoundRecord:
    """What the store is told of the round that was just booked."""
    scored = [trial for trial in facts if trial.score is not None]
    sign = 1 if book.request.objective.direction == "maximize" else -1
    winner = max(scored, key=lambda trial: sign * (trial.score or 0.0), default=None)
    record = RoundRecord(
        run_id=book.run_id,
        round=book.round,
        status=book.status,
        candidate_ids=tuple(candidate.candidate_id for candidate in candidates if candidate.part is None),
        rejections=tuple(rejections),
        best_score=winner.score if winner else None,
        best_candidate_id=winner.candidate_id if winner else None,
        best_so_far=book.best.score if book.best else None,
        best_so_far_id=book.best.candidate_id if book.best else None,
        new_best=book.best is not None and book.best.round == book.round,
        decisions=tuple(book.decisions),
        pareto_front=book.front,
        counts=book.counts,
        spend=book.accounts.spend,
        lost=book.accounts.lost,
        decided_at=decided_at,
        paused_for=book.paused_for,
        limits=book.limits_if_adjusted,
        extra=_extra(book, candidates),
    )
    book.recent_rounds = [*book.recent_rounds, record.model_copy(update={"rejections": ()})][-NEWEST:]
    return record


def _extra(book: RunBook, candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    """What the optimizer notes of a round, or why it had nothing to propose."""
    notes = dict(book.optimizer_state.notes) if candidates or book.lost_why is None else {}
    return notes if book.lost_why is None else {**notes, PROPOSAL_FAILURE: book.lost_why}


def last_round(book: RunBook, reason: StopReason, status: RunStatus) -> RoundRecord | None:
    """The last round once more, now with the reason why it was the last."""
    if not book.recent_rounds:
        return None
    update = {"stop_reason": reason, "stopped": True, "status": status, "new_best": False}
    update |= {"spend": book.accounts.spend, "lost": book.accounts.lost}
    book.recent_rounds[-1] = book.recent_rounds[-1].model_copy(update=update)
    return book.recent_rounds[-1]
