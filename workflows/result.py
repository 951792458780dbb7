"""How a run ends, and the result it gives."""

from __future__ import annotations

from datetime import datetime

from ratchet.optimizer import StopReason
from workflows.model.judgement import Judged
from workflows.model.ledger import RunStatus
from workflows.model.run import Confirmation, FactorChange, OptimizationResult
from workflows.rules.canonical import canonical_json
from workflows.rules.explaining import on_confirmation
from workflows.rules.scoring import gain
from workflows.runbook import RunBook


class RunEnded(Exception):
    """The run is over: raised where that is found out, answered in one place."""

    def __init__(self, reason: StopReason, message: str, status: RunStatus = "completed") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status


def confirmed(
    book: RunBook, baseline: float | None, winner: float | None, judged: Judged | None, *, afresh: bool = False
) -> Confirmation:
    """What the confirmation says, and how much more the search had promised."""
    promised = optimism = None
    if judged is not None and book.best and book.baseline and book.baseline.score is not None:
        assert baseline is not None and winner is not None
        direction = book.request.objective.direction
        promised = gain(book.best.score, book.baseline.score, direction)
        optimism = promised - gain(winner, baseline, direction)
    found = Confirmation(
        afresh=afresh,
        baseline_score=baseline,
        winner_score=winner,
        judged=judged,
        promised=promised,
        optimism=optimism,
    )
    return found.model_copy(update={"explanation": on_confirmation(found)})


def result_of(book: RunBook, end: RunEnded, confirmation: Confirmation | None, now: datetime) -> OptimizationResult:
    """The run's result, from its books."""
    best = book.best
    baseline = book.request.baseline
    best_configuration = best.configuration if best else {}
    changes = {
        name: FactorChange(before=baseline[name], after=value)
        for name, value in best_configuration.items()
        if canonical_json(value) != canonical_json(baseline[name])
    }
    return OptimizationResult(
        optimization_id=book.run_id,
        status=end.status,
        stop_reason=end.reason,
        message=end.message,
        baseline_score=book.baseline.score if book.baseline else None,
        best_score=best.score if best else None,
        best_candidate_id=best.candidate_id if best else None,
        best_config_hash=best.config_hash if best else None,
        best_configuration=best_configuration,
        changes=changes,
        confirmation=confirmation,
        plan=book.plan,
        noise=book.noise,
        rounds=book.round,
        counts=book.counts,
        spend=book.accounts.spend,
        lost=book.accounts.lost,
        reused=book.accounts.reused,
        evaluation_suite_id=book.prepared.evaluation_suite_id if book.prepared else None,
        started_at=book.started_at,
        finished_at=now,
        history=f"ratchet report {book.run_id}",
    )
