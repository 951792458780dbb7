"""When to stop: each rule a small pure function of the same facts; the first to trigger, in this order, wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from ratchet.optimizer import Direction, StopDecision, StopReason
from workflows.model.run.rounds import Spend
from workflows.model.spec.execution import Budget, Stop

BARREN_ROUNDS = 3
"""So many rounds in a row without an admissible proposal mean that the search has converged."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at."""

    round: int
    """Rounds finished after the baseline."""
    best_score: float | None
    improved_round: int
    """The round of the last improvement that counts."""
    elapsed: timedelta
    spend: Spend
    time_to_confirm: timedelta = timedelta(0)
    """What is left to the confirmation of the time budget."""
    rounds_without_admission: int = 0
    consecutive_failures: int = 0
    direction: Direction = Direction.MAXIMIZE


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force; `adjust` changes them while the run goes on."""

    stop: Stop
    budget: Budget
    max_consecutive_failed_trials: int = 3
    several_a_round: bool = False
    """Whether a round may try several candidates: then it is no iteration."""

    @property
    def step(self) -> str:
        """What is counted, in words."""
        return "rounds" if self.several_a_round else "iterations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as applied: whether it triggers, how near it is, and what it says."""

    name: str
    reason: StopReason
    message: str
    nearness: float
    """From 0 to 1; the rule triggers at 1."""


def rules(limits: Limits, facts: Facts) -> Iterator[Rule]:
    """Every rule that is switched on, in order of precedence."""
    stop, budget = limits.stop, limits.budget
    most = limits.max_consecutive_failed_trials
    yield Rule(
        "failed trials",
        StopReason.TOO_MANY_FAILURES,
        f"{facts.consecutive_failures} trials in a row failed",
        _share(facts.consecutive_failures, most),
    )
    if stop.score is not None:
        yield _score_rule(stop.score, facts)
    if stop.max_rounds:
        yield Rule(
            "rounds",
            StopReason.MAX_ROUNDS,
            f"Reached the limit of {stop.max_rounds} round{'' if stop.max_rounds == 1 else 's'}",
            _share(facts.round, stop.max_rounds),
        )
    if stop.no_improvement > 0:
        yield Rule(
            "no improvement",
            StopReason.NO_IMPROVEMENT,
            f"No improvement in last {stop.no_improvement} {limits.step}",
            _share(facts.round - facts.improved_round, stop.no_improvement),
        )
    yield from _budget_rules(budget, facts)
    yield Rule(
        "no new proposals",
        StopReason.CONVERGENCE,
        f"All proposals of {facts.rounds_without_admission} rounds in a row were rejected",
        _share(facts.rounds_without_admission, BARREN_ROUNDS),
    )


def _score_rule(threshold: float, facts: Facts) -> Rule:
    best = facts.best_score
    if best is None:
        nearness = 0.0
    elif best >= threshold if facts.direction is Direction.MAXIMIZE else best <= threshold:
        nearness = 1.0
    elif best * threshold <= 0:
        nearness = 0.0
    else:
        low, high = sorted((abs(best), abs(threshold)))
        nearness = min(low / high, 0.999)
    return Rule(
        "score",
        StopReason.TARGET_REACHED,
        f"Score threshold {threshold:.4f} reached with score {best if best is not None else 0.0:.4f}",
        nearness,
    )


def _budget_rules(budget: Budget, facts: Facts) -> Iterator[Rule]:
    if budget.wall_time:
        yield Rule(
            "wall time",
            StopReason.TIME_BUDGET,
            time_is_over(budget),
            _share((facts.elapsed + facts.time_to_confirm).total_seconds(), budget.wall_time.total_seconds()),
        )
    spend = facts.spend
    counted = (
        ("tokens", StopReason.TOKEN_BUDGET, f"Token budget exhausted: {budget.tokens} tokens", spend.tokens, budget.tokens),
        ("cost", StopReason.COST_BUDGET, f"Cost budget exhausted: {budget.cost:g}", spend.cost, budget.cost),
        (
            "samples",
            StopReason.SAMPLE_BUDGET,
            f"Sample budget exhausted: {budget.samples} samples",
            spend.samples,
            budget.samples,
        ),
        ("trials", StopReason.SAMPLE_BUDGET, f"Trial budget exhausted: {budget.trials} trials", spend.trials, budget.trials),
    )
    for name, reason, message, used, limit in counted:
        if limit:
            yield Rule(name, reason, message, _share(used, limit))


def time_is_over(budget: Budget) -> str:
    """Say that the time budget is used up."""
    return f"Time budget exhausted: {round(budget.wall_time.total_seconds() * 1000)}ms"


def _share(used: float, of: float) -> float:
    return min(used / of, 1.0) if of else 0.0


def decide(limits: Limits, facts: Facts) -> StopDecision:
    """Whether the frame stops the run now."""
    for rule in rules(limits, facts):
        if rule.nearness >= 1.0:
            return StopDecision(should_stop=True, reason=rule.reason, message=rule.message)
    return StopDecision(should_stop=False)


def describe(limits: Limits) -> str:
    """The policies in words, as reports show them."""
    stop, budget = limits.stop, limits.budget
    words: list[str] = []
    if stop.max_rounds:
        words.append(f"Max {stop.max_rounds + (not limits.several_a_round)} {limits.step}")
    if stop.no_improvement > 0:
        delta = f" (min delta {stop.min_delta:g})" if stop.min_delta else ""
        words.append(f"No improvement for {stop.no_improvement} {limits.step}{delta}")
    if budget.wall_time:
        words.append(f"Time budget: {budget.wall_time.total_seconds():g}s")
    if budget.tokens:
        words.append(f"Token budget: {budget.tokens} tokens")
    if budget.cost:
        words.append(f"Cost budget: {budget.cost:g}")
    if budget.samples:
        words.append(f"Sample budget: {budget.samples} samples")
    if budget.trials:
        words.append(f"Trial budget: {budget.trials} trials")
    if stop.score is not None:
        words.append(f"Score threshold: {stop.score:g}")
    if stop.policy is not None:
        words.append(stop.policy.description or f"Python: {stop.policy.ref}")
    return " OR ".join(words) or "No stop policy"
