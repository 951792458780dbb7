"""What a round may still spend. Trials and samples are counted before they are dispatched, so they are never overshot."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ratchet.optimizer import StopDecision, StopReason
from workflows.model.ledger import Spend
from workflows.model.search import Budget

UNCOUNTED = 1e9
"""More trials than any run has; beyond it there is nothing to count."""


def affordable_trials(budget: Budget, spend: Spend, samples_each: int, wanted: int) -> int:
    """How many of the wanted trials fit into what is left."""
    return max(min([wanted, *(count for count, _ in _room(budget, spend, samples_each))]), 0)


def exhausted(budget: Budget, spend: Spend, samples_each: int) -> StopDecision | None:
    """The decision to stop when not even one more trial fits."""
    return next((decision for count, decision in _room(budget, spend, samples_each) if count < 1), None)


def _room(budget: Budget, spend: Spend, samples_each: int) -> Iterator[tuple[int, StopDecision]]:
    """For each budget, how many more trials fit: by count, or by the average cost and tokens of those so far."""
    if budget.trials:
        yield budget.trials - spend.trials, _over(StopReason.SAMPLE_BUDGET, f"Trial budget exhausted: {budget.trials} trials")
    if budget.samples and samples_each:
        left = (budget.samples - spend.samples) // samples_each
        yield left, _over(StopReason.SAMPLE_BUDGET, f"Sample budget exhausted: {budget.samples} samples")
    if budget.tokens and spend.tokens and spend.trials:
        left = _times(budget.tokens - spend.tokens, spend.tokens / spend.trials)
        yield left, _over(StopReason.TOKEN_BUDGET, f"Token budget exhausted: {budget.tokens} tokens")
    if budget.cost and spend.cost and spend.trials:
        left = _times(budget.cost - spend.cost, spend.cost / spend.trials)
        yield left, _over(StopReason.COST_BUDGET, f"Cost budget exhausted: {budget.cost:g}")


def _times(left: float, each: float) -> int:
    """How often `each` fits; what floats lose in the last digits takes no trial away."""
    fits = min(left / each, UNCOUNTED) if each else UNCOUNTED
    return round(fits) if math.isclose(fits, round(fits), rel_tol=1e-9) else math.floor(fits)


def _over(reason: StopReason, message: str) -> StopDecision:
    return StopDecision(should_stop=True, reason=reason, message=message)


def refuse_baseline(budget: Budget, calls: int) -> str | None:
    """Why not even the baseline fits into the budget, if it does not."""
    if budget.samples and budget.samples < calls:
        return (
            f"budget.samples: is {budget.samples}, and one trial makes {calls} target calls; "
            "allow more, or lower samples_per_trial"
        )
    return None
