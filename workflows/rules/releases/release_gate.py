"""What a winner's confirmation says about releasing it, and the evidence that goes with a release."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from ratchet.optimizer import Direction
from workflows.model.run.run_result import Confirmation, OptimizationResult
from workflows.model.spec.judgement import Judged, Verdict


def unconfirmed(confirmation: Confirmation | None) -> str | None:
    """Why nothing is known beyond the search's own, optimistic score; None when something is."""
    if confirmation is None:
        return "nothing confirmed it: the dataset has no test split"
    if confirmation.refused is not None:
        return f"nothing confirmed it: {confirmation.refused}"
    if confirmation.baseline_score is None or confirmation.winner_score is None:
        return "nothing confirmed it: the confirmation did not complete"
    return None


def regression(confirmation: Confirmation | None, direction: Direction) -> str | None:
    """What the confirmation shows that nobody wants to ship; None when it shows nothing of the kind."""
    if confirmation is None:
        return None
    shown = next(_losses(confirmation.judged), None) if confirmation.judged is not None else _lower(confirmation, direction)
    return None if shown is None else f"the confirmation shows a regression: {shown}"


def _losses(judged: Judged) -> Iterator[str]:
    evidence = judged.evidence
    if judged.verdict is Verdict.WORSE:
        yield judged.explanation or "worse"
    if judged.verdict is Verdict.INCONCLUSIVE and evidence.effect < 0:
        yield judged.explanation or "inconclusive, and lower"
    if evidence.must_pass_broken:
        yield f"must-pass samples failed: {', '.join(evidence.must_pass_broken)}"
    for check in evidence.constraints:
        if not check.holds:
            yield f"{check.constraint} does not hold"
    for name, verdict in judged.objectives.items():
        if verdict is Verdict.WORSE:
            yield f"{name} is worse"


def _lower(confirmation: Confirmation, direction: Direction) -> str | None:
    before, after = confirmation.baseline_score, confirmation.winner_score
    if before is None or after is None:
        return None
    worse = after < before if direction is Direction.MAXIMIZE else after > before
    return f"{before:.4g} → {after:.4g}" if worse else None


def evidence_of(result: OptimizationResult, direction: Direction) -> dict[str, JsonValue]:
    """What there is to show for a run's winner."""
    confirmation = result.confirmation
    return {
        "run_id": result.optimization_id,
        "direction": direction.value,
        "baseline_score": result.baseline_score,
        "best_score": result.best_score,
        "rounds": result.rounds,
        "trials": result.spend.trials,
        "confirmation": None if confirmation is None else confirmation.model_dump(mode="json"),
    }
