"""How a run ends, and the result it gives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ratchet._canonical import canonical_json
from ratchet.optimizer import StopReason
from workflows.model.failures import one_line
from workflows.model.run.candidates import Candidate
from workflows.model.run.contract import Confirmation, EndedBy, Ending, FactorChange, OptimizationResult
from workflows.model.run.decisions import Reference
from workflows.model.run.rounds import RunStatus
from workflows.model.spec.judgement import Judged
from workflows.model.trial import TrialResult
from workflows.rules.decisions.budget import confirmation_fits, exhausted, exhausted_by
from workflows.rules.decisions.sentences import on_confirmation
from workflows.rules.decisions.stop_rules import decide
from workflows.rules.scoring.objective_score import gain
from workflows.run.state import RunBook

NOTHING_NEW = (
    "the target answers the same every time, so that fresh answers to the samples of the search show nothing new; "
    "hold back samples with dataset.splits.test"
)
"""Why the confirmation gives no verdict."""


class RunEnded(Exception):
    """The run is over: raised where that is found out, answered in one place."""

    def __init__(self, reason: StopReason, message: str, status: RunStatus = "completed", *, by: EndedBy | None = None) -> None:
        self.message = one_line(message)  # it may repeat what a plug-in said, and is shown in lists, logs and terminals
        super().__init__(self.message)
        self.reason = reason
        self.status = status
        self.by = by or _BY.get(reason, "rules")


_BY: dict[StopReason, EndedBy] = {
    StopReason.STOPPED_EARLY: "person",
    StopReason.CANCELLED: "person",
    StopReason.EXECUTION_FAILURE: "failure",
    StopReason.PROPOSAL_FAILURE: "proposer",
}


def ended_by_rules(book: RunBook, now: datetime) -> RunEnded | None:
    """The end of the run, where its stop rules or its budget call for it now."""
    decision = decide(book.limits, book.facts(now))
    if not decision.should_stop:
        accounts, budget = book.accounts, book.limits.budget
        over = accounts.over or exhausted(budget, accounts.counted, book.needs)
        found = exhausted_by(accounts.exhausted, budget) if accounts.exhausted is not None else over
        if found is None:
            return None
        decision = found
    reason, message = decision.reason or StopReason.ALGORITHM_SPECIFIC, decision.message or ""
    if reason is StopReason.TOO_MANY_FAILURES:
        return RunEnded(reason, f"{message}: {book.last_failure}", "failed")
    return RunEnded(reason, message)


def unmeasured(book: RunBook, baseline: TrialResult) -> RunEnded | None:
    """The end of a run whose baseline, or its noise, could not be measured."""
    if baseline.status == "completed":
        return None
    if baseline.exhausted is not None:
        over = exhausted_by(baseline.exhausted, book.limits.budget)
        told = f"{over.message}, before the baseline was measured: {baseline.stopped_early}"
        return RunEnded(over.reason or StopReason.BASELINE_FAILED, told, "failed")
    return RunEnded(StopReason.BASELINE_FAILED, f"The baseline failed: {baseline.error}", "failed")


def scoring_broke(results: Sequence[TrialResult]) -> RunEnded | None:
    """The end of a run whose answers cannot be scored."""
    broken = next((result for result in results if result.failure == "scoring"), None)
    if broken is None:
        return None
    return RunEnded(StopReason.SCORING_FAILURE, f"Scoring failed: {broken.error}", "failed")


def ending_of(book: RunBook, end: RunEnded, now: datetime) -> Ending:
    """Who ended the run, and what that was decided on."""
    return Ending(by=end.by, decided_at=now, paused_for=book.paused_for, limits=book.limits_if_adjusted)


def to_confirm(book: RunBook) -> list[Candidate]:
    """Baseline and winner once more, or the baseline alone where it is the best; nothing where nothing is confirmed."""
    assert book.prepared and book.best
    baseline = book.baseline_candidate_again()
    pair = [baseline] if book.best.config_hash == baseline.config_hash else [baseline, book.best_candidate()]
    if book.prepared.test_samples or (book.needs.confirmation_calls and len(pair) > 1):
        return pair
    return []


def uncovered(book: RunBook, pair: Sequence[Candidate]) -> str | None:
    """Why the confirmation is not begun, where the budget does not cover it."""
    assert book.prepared
    needed = book.needs.confirmation_calls if len(pair) > 1 else book.prepared.test_samples * book.design.baseline_replicates
    if confirmation_fits(book.limits.budget, book.accounts.counted, len(pair), needed):
        return None
    return "what is left of the budget does not cover it"


def confirmation_references(book: RunBook, pair: Sequence[Candidate]) -> list[Reference]:
    """Baseline and winner as they were measured for the confirmation."""
    return [
        Reference(
            candidate_id=one.candidate_id,
            config_hash=one.config_hash,
            first_replicate=one.first_replicate,
            replicates=replicates,
        )
        for one, replicates in zip(pair, (book.design.baseline_replicates, book.design.replicates), strict=False)
    ]


def confirmed(
    book: RunBook,
    baseline: float | None,
    winner: float | None,
    judged: Judged | None,
    *,
    afresh: bool = False,
    alike: bool = False,
) -> Confirmation:
    """What the confirmation says, and how much more the search had promised.

    Answers that are `alike` those of the search confirm nothing: what was chosen for them is judged by them.
    """
    if alike:
        refused = Confirmation(afresh=afresh, baseline_score=baseline, winner_score=winner, refused=NOTHING_NEW)
        return refused.model_copy(update={"explanation": on_confirmation(refused)})
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
