"""How long a run goes on at most: the one estimate that queries, the command line, HTTP and the page tell."""

from __future__ import annotations

from workflows.model.run.rounds import Spend
from workflows.model.spec.execution import Budget, Stop


def seconds_left(stop: Stop, budget: Budget, spend: Spend, rounds: int, elapsed_seconds: float) -> float | None:
    """Foretell when the rounds, or the first of the budgets, are used up at the rate of so far; None where nothing bounds the
    run. A stop rule may end it sooner."""
    bounds = []
    if stop.max_rounds and rounds:
        bounds.append(elapsed_seconds / (rounds + 1) * (stop.max_rounds - rounds))
    if budget.wall_time:
        bounds.append(budget.wall_time.total_seconds() - elapsed_seconds)
    for name in ("cost", "tokens", "samples", "trials"):
        limit, used = getattr(budget, name), getattr(spend, name)
        if limit and used:
            bounds.append(elapsed_seconds * (limit - used) / used)
    return max(min(bounds), 0.0) if bounds else None
