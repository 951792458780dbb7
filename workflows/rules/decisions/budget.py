"""What a round may still spend: trials that do not fit are not begun.

Trials and samples are counted exactly, cost and tokens by the average call that was answered so far. What lost calls can have
taken is gone from the budget, but says nothing of the calls to come: it is the most, not what one takes. That no call is made
that is not covered does not depend on it: what each can take is set aside before it is made (`activities/budget/lease.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import cast

from ratchet.optimizer import StopDecision, StopReason
from workflows.model.run.amounts import Amount, Resource
from workflows.model.run.rounds import Spend
from workflows.model.run.team_rest import TeamRest
from workflows.model.spec.design import Design
from workflows.model.spec.execution import Budget, BudgetChange, only_given
from workflows.model.spec.request import OptimizationRequest

UNCOUNTED = 1e9
"""More trials than any run has; beyond it there is nothing to count."""

CONFIRMATION_TRIALS = 2

NOTHING_LOST = Spend()
"""No call went without an answer; what one of those can have taken counts against the budget."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What is asked of a budget."""

    calls: int
    """Target calls of one trial."""
    confirmation_calls: int = 0
    """Target calls of the confirmation, which the search leaves alone."""
    opening_calls: int = 0
    """Target calls before the search, where they are more than those of another trial."""
    smallest_part: int | None = None
    """Target calls of the smallest part that the optimizer measures, if it measures parts."""
    at_most: Amount | None = None
    """What one call takes at most, where nobody can set it aside call by call: such a trial is begun only if all of it fits."""

    @property
    def fewest_calls(self) -> int:
        """Of the smallest trial that is worth going on for."""
        return min(self.calls, self.smallest_part or self.calls)

    @property
    def confirmation_trials(self) -> int:
        return CONFIRMATION_TRIALS if self.confirmation_calls else 0


def used_up(given: BudgetChange, spend: Spend, elapsed: timedelta) -> str:
    """What it means that new budgets are not more than what is used already; empty where they are."""
    used = {**spend.model_dump(include={"cost", "tokens", "samples", "trials"}), "wall_time": elapsed.total_seconds()}
    told = []
    for name, limit in only_given(given).items():
        most = limit.total_seconds() if isinstance(limit, timedelta) else limit
        if most and used[name] >= most:
            unit = " s" if name == "wall_time" else ""
            told.append(f"budget.{name} is {most:g}{unit}, and {used[name]:.6g}{unit} is used already")
    if not told:
        return ""
    return f"{'; '.join(told)}: nothing more is begun, and the run ends with what it has. Give more, or 0 for no limit"


def confirmation_samples(request: OptimizationRequest, searched: int, held_back: int) -> int:
    """Samples that baseline and winner are confirmed on: those that were held back. Without any, a winner that is kept for
    being shorter, whatever its score, is confirmed with fresh answers to the samples of the search."""
    return held_back or (searched if request.judgement.accept == "shorter" else 0)


def confirmation_calls(samples: int, design: Design) -> int:
    """Target calls of baseline and winner."""
    return samples * (design.baseline_replicates + design.replicates)


def needs_of(request: OptimizationRequest, design: Design, held_back: int) -> Needs:
    """What one trial, the opening of the run, and the confirmation ask of the budget."""
    target = request.target
    stated = target.stated if target.is_set_aside_whole else None
    noise = request.noise_first
    again = min(noise.samples, design.samples) * max(0, noise.replicates - design.baseline_replicates) if noise else 0
    return Needs(
        calls=design.samples * design.replicates,
        opening_calls=design.samples * design.baseline_replicates + again,
        confirmation_calls=confirmation_calls(confirmation_samples(request, design.samples, held_back), design),
        smallest_part=request.optimizer.smallest_part,
        at_most=None if stated is None else Amount(tokens=stated.tokens, cost=stated.cost),
    )


class TrialsLeft:
    """What is left for the trials of a step; each that is begun takes its share."""

    def __init__(self, budget: Budget, spend: Spend, needs: Needs, lost: Spend = NOTHING_LOST) -> None:
        self._limits = list(_limits(budget, spend, needs, lost))
        self.over: StopDecision | None = None
        """Says which budget was short of a trial, once one was."""

    def take(self, calls: int) -> bool:
        """Whether a trial of so many calls fits. If it does, it is counted."""
        short = next((limit for limit in self._limits if limit.fitting(calls) < 1), None)
        if short is not None:
            self.over = self.over or short.over
            return False
        self._limits = [limit.after(calls) for limit in self._limits]
        return True


def calls_left(budget: Budget, spend: Spend, needs: Needs, lost: Spend = NOTHING_LOST) -> int | None:
    """How many target calls the search may still make, as far as is known; None where nothing bounds them."""
    return min((limit.fitting_calls() for limit in _limits(budget, spend, needs, lost) if limit.each_call), default=None)


def trials_left(budget: Budget, spend: Spend, needs: Needs, lost: Spend = NOTHING_LOST) -> int | None:
    """How many trials the search may still begin; None where nothing bounds them."""
    return min((limit.fitting(0) for limit in _limits(budget, spend, needs, lost) if limit.each_trial), default=None)


def exhausted(budget: Budget, spend: Spend, needs: Needs, lost: Spend = NOTHING_LOST) -> StopDecision | None:
    """The decision to stop when not even the smallest trial fits."""
    return next((limit.over for limit in _limits(budget, spend, needs, lost) if limit.fitting(needs.fewest_calls) < 1), None)


def exhausted_by(resource: Resource, budget: Budget, rest: TeamRest | None = None) -> StopDecision:
    """The decision to stop when a call did not fit any more, into the run's budget or what was left of its team's."""
    match resource:
        case "samples":
            told = f"{budget.samples} samples" if rest is None else rest.words
            return _over(StopReason.SAMPLE_BUDGET, f"Sample budget exhausted: {told}")
        case "tokens":
            told = f"{budget.tokens} tokens" if rest is None else rest.words
            return _over(StopReason.TOKEN_BUDGET, f"Token budget exhausted: {told}")
    return _over(StopReason.COST_BUDGET, f"Cost budget exhausted: {f'{budget.cost:g}' if rest is None else rest.words}")


def confirmation_fits(budget: Budget, spend: Spend, trials: int, calls: int) -> bool:
    """Whether the confirmation may begin. What its calls take is set aside call by call, like all calls."""
    if budget.trials and spend.trials + trials > budget.trials:
        return False
    return not budget.samples or spend.samples + calls <= budget.samples


@dataclass(frozen=True, slots=True)
class _Limit:
    """One budget: what the confirmation leaves of it, and what a trial takes."""

    left: float
    each_trial: float
    each_call: float
    over: StopDecision

    def fitting(self, calls: int) -> int:
        """How many trials of so many calls fit."""
        return _times(self.left, self.each_trial + self.each_call * calls)

    def fitting_calls(self) -> int:
        """How many calls fit, in however many trials."""
        return max(_times(self.left, self.each_call), 0)

    def after(self, calls: int) -> _Limit:
        """With one more of them."""
        return replace(self, left=self.left - self.each_trial - self.each_call * calls)


def _limits(budget: Budget, spend: Spend, needs: Needs, lost: Spend) -> Iterator[_Limit]:
    """Every budget, by count, or by what a call took on average so far."""
    left: float
    if budget.trials:
        left = budget.trials - spend.trials - needs.confirmation_trials
        yield _Limit(left, 1, 0, _over(StopReason.SAMPLE_BUDGET, f"Trial budget exhausted: {budget.trials} trials"))
    if budget.samples and needs.calls:
        left = budget.samples - spend.samples - lost.samples - needs.confirmation_calls
        yield _Limit(left, 0, 1, exhausted_by("samples", budget))
    for resource, limit in (("tokens", budget.tokens), ("cost", budget.cost)):
        spent = getattr(spend, resource)
        stated = getattr(needs.at_most, resource) if needs.at_most else 0
        each = max(_average(spent, spend, needs), stated)
        if limit and each:
            left = limit - spent - getattr(lost, resource) - needs.confirmation_calls * each
            yield _Limit(left, 0, each, exhausted_by(cast("Resource", resource), budget))


def _average(spent: float, spend: Spend, needs: Needs) -> float:
    """What one call took. Answers that were there already make a trial cheaper, not the next call."""
    calls = min(spend.samples or math.inf, spend.trials * needs.calls)
    return spent / calls if calls else 0.0


def _times(left: float, each: float) -> int:
    """How often `each` fits; what floats lose in the last digits takes no trial away."""
    fits = max(min(left / each, UNCOUNTED), -UNCOUNTED) if each else UNCOUNTED
    return round(fits) if math.isclose(fits, round(fits), rel_tol=1e-9) else math.floor(fits)


def _over(reason: StopReason, message: str) -> StopDecision:
    return StopDecision(should_stop=True, reason=reason, message=message)


def refuse_baseline(budget: Budget, needs: Needs) -> str | None:
    """Why not even the baseline and the confirmation fit into the budget, if they do not."""
    opening = max(needs.calls, needs.opening_calls)
    least = opening + needs.confirmation_calls
    if budget.samples and budget.samples < least:
        return (
            f"budget.samples: is {budget.samples}, and {_least_calls(needs)} target calls; "
            "allow more, or lower samples_per_trial"
        )
    if budget.trials and budget.trials < 1 + needs.confirmation_trials:
        return (
            f"budget.trials: is {budget.trials}, and the baseline with the confirmation of the winner on the test split needs "
            f"{1 + needs.confirmation_trials}; allow more, or hold nothing back (dataset.splits: none)"
        )
    return None


def _least_calls(needs: Needs) -> str:
    opening = max(needs.calls, needs.opening_calls)
    if not needs.confirmation_calls:
        return f"the baseline makes {opening}" if needs.opening_calls > needs.calls else f"one trial makes {opening}"
    both = opening + needs.confirmation_calls
    return f"the baseline ({opening}) with the confirmation ({needs.confirmation_calls}) makes {both}"
